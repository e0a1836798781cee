"""Training steps over ranks: defective ones and their sound counterparts."""
