"""Pages of runs and comparisons as Markdown and HTML; SARIF, JUnit, GitLab and CSV."""
