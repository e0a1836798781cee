"""Training steps: defective ones and their sound counterparts."""
