"""A run on the terminal: live while it goes on, whole when it has ended."""
