"""Figures of a folder of tickets and of a page about it."""
