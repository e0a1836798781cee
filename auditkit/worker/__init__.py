"""Code that runs inside the interpreter of a checkout: stdlib and torch only, Python 3.10 syntax."""
