"""From the model to formats that other machines read: pure functions."""
