"""`ticket list`, `show` and `next`: what they do, without Typer, which takes longer to load than they to run."""
