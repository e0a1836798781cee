"""Two or more revisions: comparisons and trials of fixes."""
