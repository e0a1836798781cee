"""Recommended code in a copy of the target's file, and the names that statements read and set."""
