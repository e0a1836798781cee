"""Gives a private function a public name."""

from .norms import _exported_norm as exported_norm

__all__ = ["exported_norm"]
