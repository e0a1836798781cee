"""A run, a change or the tickets as one page for a browser, its pictures drawn from the numbers alone."""
