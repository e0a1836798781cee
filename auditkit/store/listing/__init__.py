"""Lists of tickets: rows, their index in the user's cache, order and selection."""
