"""Values with units, as text for people and as strict JSON."""

from __future__ import annotations

from typing import Any

TIME_UNITS = frozenset({"s", "ms", "us", "µs", "ns", "seconds", "milliseconds", "microseconds", "nanoseconds"})
"""Units of measurements that never come out twice the same: no ticket is rewritten for them."""

_BINARY_PREFIXES = ("B", "KiB", "MiB", "GiB", "TiB")
_DIMENSIONS: dict[str, dict[str, float]] = {
    "bytes": {
        "bytes": 1, "byte": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
        "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "TiB": 1024**4,
    },
    "time": {"s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9},
    "ratio": {"ratio": 1, "x": 1, "times": 1, "%": 0.01},
}  # fmt: skip


def dimension_of(unit: str) -> str:
    """What `unit` measures: `bytes`, `time`, `ratio`, or the unit itself (`count`, `norm`)."""
    return next((dimension for dimension, units in _DIMENSIONS.items() if unit in units), unit)


def factor_of(unit: str) -> float:
    """How many of its dimension's first unit (bytes, seconds, a ratio of one) make one of `unit`."""
    return next((units[unit] for units in _DIMENSIONS.values() if unit in units), 1.0)


def is_known_unit(unit: str) -> bool:
    """Whether `unit` can be converted: of bytes, time or a ratio."""
    return any(unit in units for units in _DIMENSIONS.values())


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
