"""What takes long to import is seen before a worker is forked."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditkit.probing.source.import_effects import dear_imports
from auditkit.probing.source.python_files import PythonFiles
from tests.filing_helpers import put


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
