"""What holds a tensor, a number or neither, followed through one module."""
