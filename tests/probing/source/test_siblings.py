"""The same syntax elsewhere: found under other names and spellings, told from code that only looks alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditkit.model.runs.cause import Siblings
from auditkit.model.runs.measurement import Location
from auditkit.probing.source.likeness.causes import find_siblings
from auditkit.probing.source.statements import unit_of

pytestmark = pytest.mark.process

READ_EACH = "    norms = [p.grad.norm(2).item() for p in parameters if p.grad is not None]\n"


def swept(root: Path, text: str, others: dict[str, str]) -> Siblings:
    """What is found for the last line of `text`, the only finding, beside the files `others`."""
    (root / "own.py").write_text(text, encoding="utf-8")
    for name, content in others.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content, encoding="utf-8")
    unit = unit_of(root, Location("own.py", text.count("\n")))
    assert unit is not None
    assert unit.statement is not None
    return find_siblings(root, [unit])[unit.statement]


def function(body: str) -> str:
    return f"import torch\n\n\ndef f(parameters):\n{body}"


def places(found: Siblings) -> list[tuple[str, int]]:
    return [(place.location.file, place.location.line) for place in found.places]


SAME = {
    "other names": "    out = [layer.grad.norm(2).item() for layer in layers]\n",
    "another object": "    out = [g.norm(2).item() for g in grads]\n",
    "in a loop": "    for g in grads:\n        out.append(g.norm(2).item())\n",
    "over two lines": "    out = [\n        g.grad\n        .norm(2)\n        .item()\n        for g in grads\n    ]\n",
}
OTHER = {
    "another order": "    out = [g.norm(1).item() for g in grads]\n",
    "not read": "    out = [g.norm(2) for g in grads]\n",
    "read together": "    out = torch.stack([g.norm(2) for g in grads]).tolist()\n",
    "in a string": '    out = "p.grad.norm(2).item()"\n',
    "in a comment": "    out = []  # p.grad.norm(2).item()\n",
    "a method that is called the same": "    out = [g.norm(2, g).item() for g in grads]\n",
}


@pytest.mark.parametrize("body", SAME.values(), ids=SAME)
def test_the_same_is_found_however_it_is_written(tmp_path: Path, body: str) -> None:
    """Other names, and a loop instead of a comprehension."""
    found = swept(tmp_path, function(READ_EACH), {"other.py": function(body)})
    assert [file for file, _ in places(found)] == ["other.py"]


@pytest.mark.parametrize("body", OTHER.values(), ids=OTHER)
def test_what_does_something_else_is_not_found(tmp_path: Path, body: str) -> None:
    found = swept(tmp_path, function(READ_EACH), {"other.py": function(body)})
    assert (found.places, found.probed, found.reason) == ((), (), "")
    assert found.pattern == "x.norm(2).item()"


def test_a_place_names_its_line_and_its_function(tmp_path: Path) -> None:
    """The line of the expression, the qualified name around it; tests are told apart."""
    text = "class Monitor:\n    def read(self, gs):\n        #\n        return [g.norm(2).item() for g in gs]\n"
    found = swept(tmp_path, function(READ_EACH), {"pkg/monitor.py": text, "tests/test_norms.py": function(READ_EACH)})
    assert [(p.location.file, p.location.line, p.location.function, p.is_test) for p in found.places] == [
        ("pkg/monitor.py", 4, "Monitor.read", False),
        ("tests/test_norms.py", 5, "f", True),
    ]
