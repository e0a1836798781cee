"""Files that train, write or read a command line when they are imported are named; a guard keeps them quiet."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditkit.probing.source.import_effects import dear_imports, import_effects
from auditkit.probing.source.python_files import PythonFiles
from tests.filing_helpers import put

SCRIPT = """import argparse
import torch
from package import helper

args = argparse.ArgumentParser().parse_args()
log = open("train.log", "a")


def run():
    step()


def step():
    loss.backward()


for epoch in range(3):
    run()
"""


def effects(folder: Path, call: str = "train:norm") -> list[str]:
    return [found.describe() for found in import_effects(PythonFiles(folder, (folder,)), [call])]


def test_a_script_is_named_with_its_lines_and_what_to_do(tmp_path: Path) -> None:
    put(tmp_path, "train.py", SCRIPT)
    put(tmp_path, "norms.py", "import train\n")
    assert effects(tmp_path, "norms:norm") == [
        "train.py trains (line 18), reads the command line (line 5) and writes files (line 6) when it is imported: "
        'put that under `if __name__ == "__main__":`, or name targets of other files'
    ]
    assert effects(tmp_path, "train:norm") == []  # its function is cut out of it


def test_what_a_target_imports_is_followed_and_what_a_function_imports_is_not(tmp_path: Path) -> None:
    put(tmp_path, "norms.py", "from package import helper\ndef norm(grads):\n    import train\n")
    put(tmp_path, "train.py", SCRIPT)
    put(tmp_path, "package/__init__.py", "import subprocess\nCOMMIT = subprocess.run(['git', 'rev-parse', 'HEAD'])\n")
    put(tmp_path, "package/helper.py", "import torch, platform\ntorch.save({}, platform.system())\n")
    assert effects(tmp_path, "norms:norm") == [
        "package/__init__.py starts processes (line 2) when it is imported",
        "package/helper.py writes files (line 2) when it is imported",
    ]


@pytest.mark.parametrize(
    "code",
    [
        "def main():\n    loss.backward()\n\nif __name__ == '__main__':\n    main()\n",
        "import torch\ntorch.manual_seed(0)\nconfig = open('config.json').read()\n",
        "save = lambda model: model.save()\n",
        "class Trainer:\n    def step(self):\n        self.loss.backward()\n",
        "text = open('w')\n",
    ],
)
def test_a_file_that_only_defines_things_is_not_named(tmp_path: Path, code: str) -> None:
    put(tmp_path, "train.py", code)
    assert effects(tmp_path) == []


@pytest.mark.parametrize(
    ("code", "parts"),
    [
        ("from torch.distributed._tensor import DTensor\n", ["torch.distributed.fsdp"]),
        ("def main(model):\n    model = torch.compile(model)\n", []),
    ],
)
def test_what_takes_long_to_import_is_seen_before(code: str, parts: list[str], tmp_path: Path) -> None:
    """In what a target's module imports; of a script that is asked about only parts run."""
    put(tmp_path, "package/helper.py", code)
    for name in ("norms.py", "my-trainer/train.py"):
        put(tmp_path, name, f"from package import helper\n{code if '-' in name else ''}")
    files = PythonFiles(tmp_path, (tmp_path,))
    assert dear_imports(files, ["norms:norm"]) == parts
    put(tmp_path, "package/helper.py", "")
    assert dear_imports(PythonFiles(tmp_path, (tmp_path,)), ["my-trainer/train.py:#norm"]) == []
