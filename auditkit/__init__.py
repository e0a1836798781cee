"""auditkit: executable probes for PyTorch training code, and the tickets of what reproduced."""

__version__ = "0.1.0"
