"""Edits of a ticket: each makes one document from another, and changes no byte beside what it says."""
