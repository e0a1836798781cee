"""Measurements of a call: one file for each instrument, and the check that each reads its toy."""
