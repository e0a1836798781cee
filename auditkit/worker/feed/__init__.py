"""Find a way to call a target with gradients, and call it."""
