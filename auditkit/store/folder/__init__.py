"""A folder of tickets: its files, locks, new tickets and git branches."""
