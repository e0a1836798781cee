"""The rules of lint, a file for each subject."""
