"""`lint` and `agents` in auditkit.yaml: what they give, and every complaint with its place."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from auditkit.errors import BadInputError
from auditkit.rules.lint.rule import Level
from auditkit.store.config.config import Config, read_config
from auditkit.store.config.lint_config import LintConfig
from tests.filing_helpers import put

RULES = ("TK001", "TK010", "TK011", "TK060", "TK061")


def read(tmp_path: Path, text: str) -> Config:
    return read_config(put(tmp_path, "auditkit.yaml", text), known_rules=RULES)


def test_without_them_nothing_is_said(tmp_path: Path) -> None:
    config = read(tmp_path, "batch: 7\n")
    assert config.lint == LintConfig()
    assert config.agents == {"PT": "pytorch", "CR": "codereview", "DRL": "drl"}


def test_everything_that_lint_may_say(tmp_path: Path) -> None:
    text = """\
agents: {SEC: security, PT: torch-team}
lint:
  select: [TK0, all]
  ignore: [tk06]
  levels: {TK010: warn, TK011: info}
  statuses: [open, closed, wontfix]
  domains: [training, telemetry]
  categories: [Numerical stability, Leak]
  prefix: /home/somebody/trainer
  first_commit: 2025-11-26
  folders: {done: [closed, fixed], declined: [Won't fix]}
  reviewers: 2
"""
    config = read(tmp_path, text)
    assert config.agents == {"PT": "torch-team", "CR": "codereview", "DRL": "drl", "SEC": "security"}
    assert (config.lint.select, config.lint.ignore) == (("TK0", "all"), ("tk06",))
    assert config.lint.levels == {"TK010": Level.WARN, "TK011": Level.INFO}
    assert config.lint.settings == {
        "statuses": ("open", "closed", "wontfix"),
        "domains": ("training", "telemetry"),
        "categories": ("Numerical stability", "Leak"),
        "prefix": "/home/somebody/trainer",
        "first_commit": datetime.date(2025, 11, 26),
        "folders": {"done": ("closed", "fixed"), "declined": ("wont-fix",)},
        "reviewers": 2,
    }
    assert read(tmp_path, "lint: {first_commit: '2025-11-26', folders: {}}").lint.settings == {
        "first_commit": datetime.date(2025, 11, 26),
        "folders": {},
    }


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("lint: {selct: [TK001]}", ":1:8: unknown key 'selct' in lint", "did you mean select?"),
        ("lint:\n  ignore: [TK001, TK0x]", ":2:19: no rule is named 'TK0x'", "one of TK001"),
        ("lint: {select: TK001}", ":1:16: select must be a list, not text", None),
        ("lint: {levels: {TK01: info}}", ":1:17: no rule is named 'TK01'", "one of TK001"),
        ("lint: {levels: {TK010: warning}}", ":1:24: unknown level 'warning'", "one of error, warn, info"),
        ("lint: {statuses: [open, brewing]}", ":1:25: unknown status 'brewing'", "did you mean"),
        *(
            (f"lint: {{folders: {{{name!r}: [fixed]}}}}", f":1:18: {name!r} is not a folder's name", "one name, such")
            for name in ("../../stolen", "/tmp/stolen", "..", "")
        ),
        ('lint: {folders: {"a\\0b": [fixed]}}', ":1:18: a key holds a null byte", None),
        ("lint: {folders: {done: [fixd]}}", ":1:25: unknown status 'fixd'", "did you mean fixed?"),
        ("lint: {first_commit: 26.11.2025}", ":1:22: '26.11.2025' is not a date", "YYYY-MM-DD"),
        ("lint: {first_commit: 2025-13-01}", ":1:22: '2025-13-01' is not a date", "YYYY-MM-DD"),
        ("lint: {first_commit: 2025}", ":1:22: first_commit must be a date, not a whole number", None),
        ("lint: {reviewers: -1}", ":1:19: reviewers must not be negative", None),
        ("lint: {domains: [1]}", ":1:18: an entry of domains must be text, not a whole number", None),
        ("lint: []", ":1:7: lint must be a mapping, not a list", None),
        ("agents: {sec: security}", ":1:10: 'sec' is no agent's code", "capitals and digits"),
        ("agents: {SEC: 'two words'}", ":1:15: 'two words' is not an agent's name", "letters"),
        ("agents: {SEC: drl}", ":1:15: two agents are named 'drl'", None),
        ("agents: [SEC]", ":1:9: agents must be a mapping, not a list", None),
    ],
)
def test_a_wrong_one_is_named_with_its_place(tmp_path: Path, text: str, message: str, hint: str | None) -> None:
    with pytest.raises(BadInputError) as caught:
        read(tmp_path, text)
    first = caught.value.message.splitlines()[0]
    assert first == f"{tmp_path / 'auditkit.yaml'}{message}"
    assert hint is None or hint in (caught.value.hint or "")
