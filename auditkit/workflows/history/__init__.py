"""The same probes at several revisions: comparisons."""
