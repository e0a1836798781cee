"""What runs inside the target's interpreter: stdlib and torch only, Python 3.10 syntax."""
