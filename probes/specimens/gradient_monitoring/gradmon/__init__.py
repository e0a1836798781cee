"""Gradient telemetry for a training loop: the defective collectors and their sound counterparts."""
