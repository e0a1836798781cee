"""A ticket's file as text: headings, tables, fields and blocks, with their places."""
