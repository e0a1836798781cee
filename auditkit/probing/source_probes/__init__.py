"""Probes that read the source of a checkout and run none of it."""
