"""A page as one HTML file for a browser: its Markdown rendered, and its pictures."""
