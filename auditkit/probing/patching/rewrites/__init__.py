"""Rewrites: changes of a target's own statements, each for one pattern, as edits of the text of its file."""
