"""Drive a training step with a small model and batches, and record what reaches the optimizer."""
