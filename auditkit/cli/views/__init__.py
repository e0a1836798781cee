"""What the `ticket` commands that read do, without Typer, which takes longer to load than they to run."""
