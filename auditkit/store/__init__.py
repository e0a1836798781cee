"""Where tickets live: bytes in, bytes out."""
