"""Statements cut out of a file: what a name needs, and nothing else of the file."""

from __future__ import annotations

import builtins
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from auditkit.worker.serve import cut_out, loading, placeholders, rungs
from tests.source_helpers import write

SCRIPT = '''"""A training script."""
from __future__ import annotations

import argparse
import math
import os

import torch
from helpers import scaled
from helpers.more import *

parser = argparse.ArgumentParser()
parser.add_argument("--clip", type=float, default=1.5)
args = parser.parse_args()
LIMIT = 3.0
TABLE = {}
TABLE["norm"] = 2
for _name in ("a", "b"):
    TABLE[_name] = len(_name)
model = torch.nn.Linear(2, 2)
broken = undefined_name + 1
if torch.cuda.is_available():
    device = "cuda"
else:
    device = "cpu"


def unused():
    return broken


@torch.no_grad()
def norm(grads: Sequence[Missing], limit=LIMIT):
    """The norm."""
    total = torch.stack([grad.norm() for grad in grads]).norm()
    return scaled(total, limit) * starred(TABLE["a"])


def clip():
    return args.clip


def of_model():
    return broken


open("ran", "w").close()
step = 0
while True:
    step += 1
    model(torch.ones(2)).sum().backward()
'''


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """`load(call)` by the last rung; nothing of that is left afterwards."""
    monkeypatch.setattr(builtins, "__import__", builtins.__import__)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setattr(sys, "argv", ["train"])
    monkeypatch.setattr(placeholders, "_state", placeholders._State())
    monkeypatch.setattr(rungs._Prepared, "rung", "package")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    helpers = "raise_it = 1 / 0\ndef scaled(value, by):\n    return value / by\n"
    more = "import nobody_has_this\nprint(1 / 0)\ndef starred(value):\n    return float(value)\n"
    write(tmp_path, {"train.py": SCRIPT, "helpers/__init__.py": helpers, "helpers/more.py": more})
    rungs.prepare("cut_out", ["train.py"], [str(tmp_path)])
    yield lambda call: loading.load(call, [str(tmp_path)])
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def test_a_function_has_what_it_needs_and_nothing_else_has_run(load: Callable[[str], Any], tmp_path: Path) -> None:
    norm = load("train.py:norm")
    assert norm([torch.ones(9)]) == 1.0
    held = {name for name in inspect.unwrap(norm).__globals__ if not name.startswith("__")}
    assert held == {"torch", "scaled", "starred", "LIMIT", "TABLE", "_name", "norm"}
    assert not (tmp_path / "ran").exists()


def test_lines_and_source_are_those_of_the_file(load: Callable[[str], Any], tmp_path: Path) -> None:
    function = inspect.unwrap(load("train.py:norm"))
    number = SCRIPT.splitlines().index("@torch.no_grad()") + 1
    assert (function.__code__.co_filename, function.__code__.co_firstlineno) == (str(tmp_path / "train.py"), number)
    assert inspect.getsource(function).splitlines()[2] == '    """The norm."""'


def test_what_statements_change_is_made_with_what_they_bind(load: Callable[[str], Any]) -> None:
    assert load("train.py:clip")() == 1.5


def test_what_cannot_be_made_is_an_error_only_where_it_is_used(load: Callable[[str], Any]) -> None:
    uses_it = load("train.py:of_model")
    result = uses_it()
    with pytest.raises(placeholders.PlaceholderTouched, match=r"train\.broken"):
        result + 1
    said = loading.absence("train.broken")["message"]
    assert said.startswith("it uses train.broken, and train.broken could not be made: NameError: name 'undefined_name'")


def test_a_block_gets_definitions_and_constants_and_not_what_a_run_makes(
    load: Callable[[str], Any], tmp_path: Path
) -> None:
    names = ["torch", "math", "LIMIT", "device", "norm", "model", "args", "broken", "step", "loss", "TABLE"]
    held, rung, stand_ins = loading.namespace("train.py", names, [str(tmp_path)])
    defined = {"torch", "math", "LIMIT", "device", "norm", "TABLE", "step"}
    assert {name for name in names if name in held} == defined
    assert (held["device"], held["step"], rung) == ("cpu", 0, "cut_out")
    assert stand_ins == ()


def test_what_another_process_parsed_is_parsed_once(tmp_path: Path) -> None:
    """Also where a target has removed a file again."""
    kept, removed = tmp_path / "kept.py", tmp_path / "removed.py"
    kept.write_text("x = 1\n")
    assert cut_out.parse([str(removed), str(kept)])
    assert str(kept) in cut_out.parsed_files()
    assert not cut_out.parse([str(removed), str(kept)])


def test_names_are_read_from_bytecode_past_the_first_256(tmp_path: Path) -> None:
    """A name's number takes more than one byte, and an attribute of the same name is no read."""
    names = [f"name_{number}" for number in range(300)]
    body = "\n".join(f"    {name}" for name in names)
    path = write(tmp_path, {"many.py": f"def all_of_them(held):\n{body}\n    held.only_an_attribute\n"}) / "many.py"
    (statement,) = cut_out.statements_of(str(path)).all
    assert statement.binds == {"all_of_them"}
    assert statement.reads == set(names)
