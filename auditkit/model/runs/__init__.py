"""Probes, targets, what was measured, and results."""
