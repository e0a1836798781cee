"""Which statements cause the same finding, and which look like one that does."""
