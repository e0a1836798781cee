"""Tickets: Markdown files with front matter and a JSON file of evidence, in a folder under git."""
