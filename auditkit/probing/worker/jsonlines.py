"""Strict JSON, one object a line, on a descriptor of our own."""

import json
import math
import os
from typing import Any, Dict


class Writer:
    """Sends messages on `fd`; infinities and NaN travel as the strings "inf", "-inf", "nan"."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def send(self, message: Dict[str, Any]) -> None:
        self.send_line((json.dumps(_strict(message), allow_nan=False) + "\n").encode("utf-8"))

    def send_line(self, data: bytes) -> None:
        while data:
            data = data[os.write(self.fd, data) :]


def _strict(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, dict):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    return value
