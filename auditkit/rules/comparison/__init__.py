"""What follows from two runs: what changed, what was traded, what was met."""
