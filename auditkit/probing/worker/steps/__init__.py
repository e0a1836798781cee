"""A training step and what it hands the optimizer: a small model and batches to drive it, and the seam that records."""
