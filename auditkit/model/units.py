"""Values with units, as text for people and as strict JSON."""

from __future__ import annotations

from typing import Any

TIME_UNITS = frozenset({"s", "ms", "us", "µs", "ns", "seconds", "milliseconds", "microseconds", "nanoseconds"})
"""Units of measurements that never come out twice the same: no ticket is rewritten for them."""

_BINARY_PREFIXES = ("B", "KiB", "MiB", "GiB", "TiB")


def format_bytes(count_bytes: float) -> str:
    """Bytes with a binary prefix, three significant digits: `1.25 GiB`."""
    value = float(count_bytes)
    for prefix in _BINARY_PREFIXES:
        if abs(value) < 1024 or prefix == _BINARY_PREFIXES[-1]:
            return f"{value:.0f} {prefix}" if prefix == "B" else f"{value:.3g} {prefix}"
        value /= 1024
    raise AssertionError("unreachable: the last prefix always returns")


def format_value(value: Any, unit: str = "") -> str:
    """One measured value as a cell of a table; a list or a mapping, which a worker may send, as Python shows it."""
    if value is None:
        return "none"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if unit == "bytes":
        return format_bytes(value)
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer() and abs(value) < 1e15):
        return f"{int(value):,}"
    return f"{value:.4g}"
