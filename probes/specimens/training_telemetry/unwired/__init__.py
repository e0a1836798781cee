"""Gradient telemetry whose parts do not fit together."""

from unwired.collector import GradientHealth

__all__ = ["GradientHealth"]
