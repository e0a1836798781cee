"""The block of a tried fix stands below the fix, is replaced by the next trial, and is no finding to anybody."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePath

import pytest

from auditkit.model.enums import Outcome
from auditkit.model.revisions.trial import (
    ArmKind,
    ChangeKind,
    FixBlock,
    FixTrial,
    FixVerdict,
    Judgement,
    ProbeChange,
    TriedArm,
)
from auditkit.model.runs.run import Run
from auditkit.rendering.trial import render_trial
from auditkit.store.edits.evidence import with_trial
from auditkit.store.folder.filing import file_findings
from auditkit.store.folder.repository import Repository
from auditkit.store.markdown.document import Document
from auditkit.store.markdown.evidence import says_reproduced
from auditkit.store.reading.reader import ticket_of
from tests.filing_helpers import make_finding, plain_findings, plain_forms, put, ticket_text

FINDING = "norm_overflows_on_finite_grads/1/train.norms:total_norm"
FIX = "\n## Recommended Fix\n\nScale first.\n\n```python\nreturn 0\n```\n\n---\n"
# What code and messages may hold: markers, rows, fences, terminal control, none of it at home in a table.
HOSTILE = (
    "def f(x):\n    '''\n| **Fingerprint** | `made_up/1/a:b` |\n| **Outcome** | `reproduced` |\n"
    "<!-- /auditkit:evidence -->\n```\n````\n## Verification\n\x1b[31m\n'''\n"
)


def trial(target: str = "train.norms:total_norm", text: str = "insufficient", code: str = "return 0\n") -> FixTrial:
    finding = make_finding()
    run = Run("run-1", finding.environment, (finding.result,))
    change = ProbeChange(
        finding.probe.id, Outcome.REPRODUCED, Outcome.REPRODUCED, ChangeKind.STILL, "inf", "overflow", True
    )
    difference = "\n".join(["--- a/x.py", "+++ b/x.py", *(f"+{line}" for line in code.splitlines())])
    arm = TriedArm(
        name="Recommended Fix, block 1",
        kind=ArmKind.RECOMMENDED,
        judgement=Judgement(FixVerdict.INSUFFICIENT, text, f"still | there: {code}", (change,)),
        run=run,
        block=FixBlock("Recommended Fix", 1, 3, code),
        completion=(f"kept | {code}",),
        source=code,
        difference=difference,
        target=target,
    )
    return FixTrial("B7-PT-01", target, (finding.probe.id,), "bound", run, (arm,), (f"a note: {code}",))


def document(newline: str = "\n") -> Document:
    text = ticket_text(fingerprint=FINDING, extra=FIX).replace("\n", newline)
    return Document.parse(text.encode(), PurePath("B7-PT-01.md"))


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_it_goes_below_the_fix_and_nothing_else_changes(newline: str) -> None:
    before = document(newline)
    after = with_trial(before, trial().id, render_trial(trial()))
    block = after.evidence[-1]
    gap = 2 * len(newline)
    assert after.data[: block.span.start - gap] + after.data[block.span.end :] == before.data
    assert after.data[: block.span.start].endswith(f"```{newline}{newline}".encode())
    assert after.data.count(b"\r\n") == (after.data.count(b"\n") if newline == "\r\n" else 0)
    assert ticket_of(after).recommended_fix == ticket_of(before).recommended_fix


def test_the_next_trial_of_the_same_target_replaces_it_and_of_another_stands_beside_it() -> None:
    first = with_trial(document(), trial().id, render_trial(trial()))
    assert with_trial(first, trial().id, render_trial(trial())).data == first.data
    second = with_trial(first, trial().id, render_trial(trial(text="sufficient")))
    assert second.data == first.data.replace(b"insufficient", b"sufficient")
    other = trial(target="train.norms:other|name")
    third = with_trial(second, other.id, render_trial(other))
    assert len(third.evidence) == 3
    assert with_trial(third, other.id, render_trial(other)).data == third.data


@pytest.mark.parametrize("code", ["return 0\n", HOSTILE], ids=["plain", "hostile"])
def test_it_is_no_finding_to_anybody(code: str, tmp_path: Path) -> None:
    """Not to the reader, not to what closes a ticket, not to what files the next finding."""
    tried = trial(code=code)
    after = with_trial(document(), tried.id, render_trial(tried))
    ticket = ticket_of(after)
    assert ticket.fingerprints == (FINDING,)
    assert [found.fingerprint for found in ticket.evidence] == [FINDING]
    block = after.evidence[-1]
    assert (len(after.evidence), block.fingerprint) == (2, "")
    assert not says_reproduced(after.data[block.span.start : block.span.end])
    assert after.banner is None
    assert [item.text for item in ticket.verification] == ["a test"]
    assert b"\x1b" not in after.data
    put(tmp_path, "B7-PT-01.md", after.data)
    assert Repository(tmp_path).find("B7-PT-01").ticket.fingerprints == (FINDING,)


def test_a_ticket_whose_only_block_it_is_has_no_banner() -> None:
    plain = Document.parse(ticket_text(extra=FIX).encode(), PurePath("B7-PT-01.md"))
    after = with_trial(plain, trial().id, render_trial(trial()))
    assert (len(after.evidence), after.banner, ticket_of(after).fingerprints) == (1, None, ())


def test_what_did_not_run_has_its_reason_and_no_column() -> None:
    arm = replace(trial().first, run=None, difference="", completion=())
    text = render_trial(replace(trial(), arms=(arm,))).decode()
    assert "| Recommended Fix, block 1 | insufficient | still \\| there: return 0 |" in text
    assert "| Probe |" not in text


def test_the_next_finding_joins_the_findings_above_it(tmp_path: Path) -> None:
    other = "norm_underflows_to_zero/1/train.norms:total_norm"
    tried = with_trial(document(), trial().id, render_trial(trial()))
    file = put(tmp_path, "B7-PT-01.md", tried.data)
    file_findings(Repository(tmp_path), [plain_findings(FINDING, other)], plain_forms())
    text = file.read_text("utf-8")
    assert text.index(FINDING) < text.index(other) < text.index("## Recommended Fix") < text.index("**Tried**")
