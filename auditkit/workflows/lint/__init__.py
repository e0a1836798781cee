"""Lint of a tickets folder, and what it can mend by itself."""
