"""The machine and the packages that figures depend on."""

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch


def environment(device: str, *packages: str) -> dict[str, Any]:
    """Device, cores, load, and the versions of Python, torch and `packages`."""
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        **{package: version(package) for package in packages},
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
