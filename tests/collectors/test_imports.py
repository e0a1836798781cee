"""What importing the collectors brings into a training process."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

NAMES = ("typer", "rich", "jinja2", "markdown_it", "yaml", "auditkit.cli", "auditkit.model", "triton")
SCRIPT = f"""
import torch, sys
before = set(sys.modules)
import auditkit.collectors, auditkit.collectors.spectral
print(sorted(set({NAMES!r}) & (set(sys.modules) - before)))
import importlib, auditkit.collectors.pending, typer
importlib.reload(auditkit.collectors.pending)
print(sorted(set({NAMES!r}) & (set(sys.modules) - before))[-1])
"""


def test_collectors_import_nothing_of_the_command_line() -> None:
    """Neither typer nor rich nor jinja2; a notebook may reload them. The control imports typer."""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "typer"]
