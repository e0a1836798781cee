"""One file per job the user has."""
