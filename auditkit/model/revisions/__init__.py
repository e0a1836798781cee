"""Two or more revisions: comparisons, bisections and trials of fixes."""
