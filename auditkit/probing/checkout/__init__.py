"""Checkouts, their revisions as worktrees and copies, and git."""
