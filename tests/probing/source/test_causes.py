"""Which statement a line belongs to, the function around it, and what results say of both."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditkit.model.enums import Outcome
from auditkit.model.runs.cause import Statement
from auditkit.model.runs.measurement import Location
from auditkit.model.runs.run import ProbeResult
from auditkit.probing.source.excerpts import cut_excerpt
from auditkit.probing.source.likeness.causes import with_causes
from auditkit.probing.source.statements import unit_of

pytestmark = pytest.mark.process

CODE = '''\
import torch


class Monitor:
    scale = 2

    @torch.no_grad()
    def read(self, grads):
        """Each norm."""
        if (
            not grads
        ):
            return []
        for g in grads:
            total = (
                g.norm(2)
                .item()
            )
        try:
            counts = torch.stack(
                [
                    (total == 0).sum().float(),
                    torch.isnan(
                        total
                    ).sum(),
                ]
            )
        except ValueError:
            counts = 0

        def inner(x):
            return [y.item() for y in x]

        match counts:
            case 0:
                return {
                    "norm": total,
                    "nan": counts.item(),
                }
        with open("x") as f, open("y") as h:
            pass
        return dict(
            norm=total,
            nan=counts.tolist(),
        )
'''


def line_of(text: str) -> int:
    (number,) = [number for number, line in enumerate(CODE.splitlines(), 1) if text in line]
    return number


@pytest.mark.parametrize(
    ("at", "first", "last"),
    [
        ("not grads", "if (", "not grads"),
        ("for g in", "for g in", "for g in"),
        (".item()", "total = (", None),
        ("torch.isnan(", "torch.isnan(", ").sum(),"),
        (").sum(),", "torch.isnan(", ").sum(),"),
        ("[y.item()", "[y.item()", "[y.item()"),
        ('"nan": counts.item()', '"nan": counts.item()', '"nan": counts.item()'),
        ("nan=counts.tolist()", "nan=counts.tolist()", "nan=counts.tolist()"),
    ],
)
def test_the_statement_of_a_line(tmp_path: Path, at: str, first: str, last: str | None) -> None:
    """The innermost; of a block its head alone; of things that are listed a line each, that one."""
    (tmp_path / "m.py").write_text(CODE, encoding="utf-8")
    line = line_of(at) if at != ".item()" else line_of("g.norm(2)") + 1
    unit = unit_of(tmp_path, Location("m.py", line))
    assert unit is not None
    assert unit.statement is not None
    assert unit.statement.first == line_of(first)
    if last is not None:
        assert unit.statement.last == line_of(last)


def test_at_a_definition_the_code_of_a_finding_is_what_follows_the_signature(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(CODE, encoding="utf-8")
    excerpt = cut_excerpt(tmp_path, Location("m.py", line_of("@torch")))
    assert excerpt is not None
    assert (excerpt.first_line, excerpt.last_line) == (line_of("if ("), line_of("counts = 0"))


@pytest.mark.parametrize(
    ("second", "law", "is_copy"), [("norm", "n", True), ("norm", "2n", False), ("size", "n", False)]
)
def test_a_copied_function_has_one_cause(tmp_path: Path, second: str, law: str, is_copy: bool) -> None:
    for file, name in (("a.py", "norm"), ("b.py", second)):
        body = "    for p in ps:\n        total += p.grad.norm(2).item() ** 2\n    return total\n"
        (tmp_path / file).write_text(f"def {name}(ps):\n    total = 0\n{body}", encoding="utf-8")
    made = [
        ProbeResult("p", 1, file, Outcome.REPRODUCED, "text", file, law=each, location=Location(file, 4))
        for file, each in (("a.py", "n"), ("b.py", law))
    ]
    first, copy = with_causes(made, tmp_path)
    assert (first.copy_of, copy.copy_of) == (None, Statement("a.py", 4, 4) if is_copy else None)
