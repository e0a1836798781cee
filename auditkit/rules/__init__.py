"""What follows from the model: pure functions."""
