"""`auditkit ticket lint` as a job: which files, which settings, what --fix changes, and the corpus."""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from auditkit.errors import BadInputError, StoreConflictError
from auditkit.model.enums import Severity
from auditkit.model.runs.measurement import Location
from auditkit.model.runs.run import Run
from auditkit.model.tickets.ids import agent_code, parse_ticket_id
from auditkit.rendering.hand_ticket import Draft, render_draft
from auditkit.rendering.ticket import render_ticket
from auditkit.store.config.config import read_config
from auditkit.store.folder.repository import Repository
from auditkit.store.markdown.pages import page_of
from auditkit.workflows.audit.filing import Paperwork, file_run
from auditkit.workflows.lint import lint as lint_module
from auditkit.workflows.lint.lint import LintReport, LintRequest, lint
from auditkit.workflows.lint.settings import first_commit
from tests.filing_helpers import corpus_folder, make_finding, put
from tests.rules.lint.lint_pages import FIXED, OPEN, changed
from tests.written_tickets import ticket_id, write_tickets

pytestmark = pytest.mark.process

CORPUS = corpus_folder()
CORPUS_CONFIG = """\
lint:
  statuses: [open, investigating, fix-in-progress, in-review, closed, wont-fix]
  domains: [tolaria, kasmina, simic, tamiyo]
  prefix: /home/john/esper-lite
  first_commit: 2025-11-26
  reviewers: 3
"""
ELSEWHERE = ("TK03", "TK051", "TK07", "TK08", "TK09")
"""Rules that compare with source and with other tickets: their tests compare them with the corpus."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tickets = tmp_path / "tickets"
    put(tickets, "batch7/B7-PT-01.md", OPEN)
    put(tickets, "fixed/B7-PT-02.md", another(FIXED, "B7-PT-02"))
    return tickets


def another(text: str, ticket_id: str) -> str:
    """The ticket as one of another finding, about another file."""
    renamed = text.replace("B7-PT-01", ticket_id).replace("norms", f"file_{ticket_id[-1]}")
    return renamed.replace("The norm overflows", f"Finding {ticket_id} is another one")


def found(report: LintReport) -> list[tuple[str, str]]:
    return [(finding.rule, Path(finding.path).name) for finding in report.findings]


def lint_with(folder: Path, yaml: str = "", **request: Any) -> LintReport:
    config = put(folder.parent, "auditkit.yaml", yaml)
    return lint(LintRequest(tickets=folder, config=config, **request))


def test_good_tickets_are_clean(folder: Path) -> None:
    report = lint_with(folder)
    assert (found(report), report.count, report.broken) == ([], 2, 0)


def test_a_report_is_looked_for_in_the_repository_of_the_tickets(folder: Path) -> None:
    report = "audits/march.md"
    text = OPEN.replace(
        "### Original Report Reference", f"### Original Report Reference\n\n**Report file:** `{report}`"
    )
    put(folder, "batch7/B7-PT-01.md", text)
    subprocess.run(["git", "init", "-q", str(folder.parent)], check=True)
    assert ("TK080", "B7-PT-01.md") in found(lint_with(folder, select=["TK080"]))
    put(folder.parent, report, "# March\n")
    assert found(lint_with(folder, select=["TK080"])) == []


def test_a_path_is_a_file_a_folder_or_an_id(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each once, whatever names it; the other tickets of the folder are still there to compare with."""
    put(folder, "batch7/B7-PT-03.md", changed(OPEN, ("`B7-PT-01`", "`B7-PT-03`"), ("`P1`", "`high`")))
    put(folder, "batch8/B7-PT-01.md", OPEN)
    both = [("TK004", "B7-PT-01.md")]
    named = lint_with(folder, select=["TK004", "TK010"], paths=[str(folder / "batch7" / "B7-PT-01.md")])
    assert (found(named), named.count) == (both, 1)
    twice = [str(folder / "batch7"), "B7-PT-03", str(folder / "batch7" / "B7-PT-03.md")]
    report = lint_with(folder, select=["TK004", "TK010"], paths=twice)
    assert (found(report), report.count) == ([*both, ("TK010", "B7-PT-03.md")], 2)
    outside = lint(LintRequest(select=["TK004"], paths=[str(folder / "batch8" / "B7-PT-01.md")]))
    assert (found(outside), outside.count) == (both, 1)
    monkeypatch.chdir(folder / "batch7")
    inside = lint(LintRequest(paths=["B7-PT-01.md", "."], select=["TK004"]))
    assert (found(inside), inside.count) == (both, 2)
    with pytest.raises(BadInputError, match="no such file or folder: B7-PT-9x"):
        lint(LintRequest(paths=["B7-PT-9x"]))


def test_a_file_that_cannot_be_read_is_a_finding_whatever_is_selected(folder: Path) -> None:
    put(folder, "batch7/B7-PT-03.md", b"# Finding Ticket: caf\xe9\n")
    put(folder, "NOTES.md", "# Notes\n")
    open_twice = 2 * "<!-- auditkit:evidence -->\n"
    put(folder, "batch7/B7-PT-04.md", another(OPEN, "B7-PT-04") + open_twice)
    several = lint_with(folder, select=["TK001"], paths=[str(folder / "batch7" / "B7-PT-04.md")])
    assert (len({finding.message for finding in several.findings}), several.broken) == (2, 1)
    (folder / "batch7" / "B7-PT-04.md").unlink()
    report = lint_with(folder, select=["TK001"])
    (finding,) = report.findings
    assert (finding.rule, finding.line, finding.column, finding.level) == ("TK000", 1, 22, "error")
    assert (report.count, report.broken) == (2, 1)
    named = lint_with(folder, select=["TK001"], paths=[str(folder / "NOTES.md")])
    assert [finding.message for finding in named.findings] == ["no '## Ticket Metadata' section"]


def test_settings_come_from_the_configuration_then_the_template_then_git(folder: Path) -> None:
    template = OPEN.replace("`open`", "`open` / `done`").replace("# Finding Ticket: The", "# Template of the")
    template = template.replace("`B7-PT-01`", "`B{n}`").replace("`src/train/norms.py`", "`/home/a/trainer/src/x.py`")
    put(folder, "ticket-template.md", template)
    select = ["TK011", "TK033", "TK019"]
    assert found(lint_with(folder, select=select)) == [
        ("TK033", "B7-PT-01.md"), ("TK011", "B7-PT-02.md"), ("TK033", "B7-PT-02.md"),
    ]  # fmt: skip
    said = "lint: {statuses: [open, fixed], prefix: '', first_commit: 2026-03-05}"
    assert found(lint_with(folder, said, select=select)) == [("TK019", "B7-PT-01.md"), ("TK019", "B7-PT-02.md")]


def git(where: Path, *words: str) -> None:
    dates = {"GIT_AUTHOR_DATE": "2025-02-03T12:00:00", "GIT_COMMITTER_DATE": "2025-02-03T12:00:00"}
    name = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    environment = {"PATH": os.environ["PATH"], **dates}
    subprocess.run(["git", *name, *words], cwd=where, env=environment, check=True, capture_output=True)


def test_an_id_that_two_branches_took_is_found(folder: Path) -> None:
    """Also before it is committed; the same ticket on both, moved or not, is one ticket."""

    def commit(*files: tuple[str, str]) -> None:
        for name, text in files:
            put(folder, name, text)
        git(folder, "add", "-A", ".")
        git(folder, "commit", "-qm", "tickets")

    git(folder, "init", "-q", "-b", "main")
    commit()
    git(folder, "checkout", "-q", "-b", "theirs")
    (folder / "batch7" / "B7-PT-01.md").unlink()
    mine, same = another(OPEN, "B7-PT-03"), ("batch7/B7-PT-04.md", another(OPEN, "B7-PT-04"))
    commit(("fixed/B7-PT-01.md", FIXED), ("batch7/B7-PT-03.md", mine.replace("another", "a third")), same)
    git(folder, "checkout", "-q", "main")
    put(folder, "batch7/B7-PT-03.md", mine)
    put(folder, *same)
    (finding,) = lint_with(folder, select=["TK004"]).findings
    assert (Path(finding.path).name, finding.line, finding.column) == ("B7-PT-03.md", 7, 20)
    assert finding.message == "B7-PT-03 is another ticket on the branch theirs"
    git(folder, "checkout", "-q", "--orphan", "alone")
    assert found(lint_with(folder, select=["TK004"])) == [("TK004", "B7-PT-03.md")]
    git(folder, "branch", "-D", "theirs")
    assert lint_with(folder, select=["TK004"]).findings == ()


def test_the_first_commit_is_the_repositorys(tmp_path: Path) -> None:
    """Not that of a clone which is cut short: its oldest commit is no first one."""
    whole = tmp_path / "whole"
    whole.mkdir()
    assert first_commit(whole) is None
    git(whole, "init", "-q")
    assert first_commit(whole) is None
    for message in ("one", "two"):
        git(whole, "commit", "-q", "--allow-empty", "-m", message)
    assert first_commit(whole) == datetime.date(2025, 2, 3)
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{whole}", "shallow")
    assert first_commit(tmp_path / "shallow") is None


def test_a_repository_that_many_tickets_were_copied_into_says_nothing_of_their_dates(tmp_path: Path) -> None:
    """Also where one of them is checked; when more were made there, those from before are too early again."""
    folder = tmp_path / "tickets"
    write_tickets(folder, 12)
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "one")
    for file in folder.rglob("*.md"):
        file.write_text(re.sub(r"2025-\d\d-\d\d", "2024-12-27", file.read_text()))
    one = str(folder / "batch1" / f"{ticket_id(1)}.md")
    for paths in ([], [one]):
        assert lint_with(folder, select=["TK019"], paths=paths).findings == ()
    assert lint_with(folder, "lint:\n  first_commit: 2025-02-03\n", select=["TK019"]).findings
    for number in range(70, 84):
        put(folder, f"batch1/B1-PT-{number}.md", OPEN.replace("B7-PT-01", f"B1-PT-{number}"))
    assert [len(lint_with(folder, select=["TK019"], paths=paths).findings) for paths in ([], [one])] == [12, 1]


def test_configuration_selects_and_weighs(folder: Path) -> None:
    put(folder, "batch7/B7-PT-03.md", changed(OPEN, ("`P1`", "`high`"), ("`20260304-1`\n", "`20260304-1`")))
    yaml = "lint:\n  select: [TK00, TK010]\n  ignore: [TK003]\n  levels: {TK010: info, TK008: error}\n"
    report = lint_with(folder, yaml)
    levels = {finding.rule: finding.level.value for finding in report.findings}
    assert levels == {"TK004": "error", "TK008": "error", "TK010": "info"}
    assert {finding.rule for finding in lint_with(folder, yaml, select=["TK003"]).findings} == {"TK003"}
    with pytest.raises(BadInputError, match="no rule is named 'TK9x'"):
        lint_with(folder, ignore=["TK9x"])
    with pytest.raises(BadInputError, match="no rule is named 'TKO10'") as caught:
        lint_with(folder, "lint: {levels: {TKO10: info}}")
    assert "TK010" in str(caught.value.hint)


# --fix


def fix(folder: Path, **request: Any) -> LintReport:
    return lint_with(folder, fix=True, **request)


def everything(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.md")}


def test_fix_changes_what_is_mechanical_and_no_other_byte(folder: Path) -> None:
    """A spelling, a newline and a folder at once, in a file with carriage returns; the second time nothing."""
    crlf = another(FIXED, "B7-PT-03").replace("`fixed`", "`Resolved`").replace("\n", "\r\n")
    put(folder, "batch7/B7-PT-03.md", crlf.removesuffix("\r\n"))
    before = everything(folder)
    report = fix(folder)
    moved = before.pop("batch7/B7-PT-03.md").replace(b"`Resolved`", b"`fixed`") + b"\r\n"
    assert everything(folder) == before | {"fixed/B7-PT-03.md": moved}
    assert [(change.rule, change.message) for change in report.changes] == [
        ("TK011", "status 'Resolved' is now 'fixed'"),
        ("TK008", "added the newline at the end"),
        ("TK042", f"moved to {folder / 'fixed' / 'B7-PT-03.md'}"),
    ]
    assert found(report) == []
    assert fix(folder).changes == ()
    assert everything(folder) == before | {"fixed/B7-PT-03.md": moved}


def test_fix_does_what_is_selected_alone(folder: Path) -> None:
    put(folder, "batch7/B7-PT-03.md", FIXED.replace("`fixed`", "`resolved`").removesuffix("\n"))
    assert [change.rule for change in fix(folder, select=["TK008"]).changes] == ["TK008"]
    path = str(folder / "batch7" / "B7-PT-03.md")
    report = fix(folder, select=["TK011", "TK042"], paths=[path])
    assert ([change.rule for change in report.changes], report.count) == (["TK011", "TK042"], 1)


@pytest.mark.parametrize(
    ("path", "text", "goes_to"),
    [
        ("fixed/B7-PT-05.md", OPEN, "batch7"),
        ("closed/B7-PT-05.md", OPEN, "batch7"),
        ("closed/B7-PT-05.md", FIXED, "fixed"),
        ("batch7/B7-PT-05.md", FIXED.replace("`fixed`", "`not-a-bug`"), "closed"),
        # The status may be what was forgotten: a person has to look.
        ("fixed/B7-PT-05.md", FIXED.replace("`fixed`", "`open`"), "fixed"),
        ("closed/B7-PT-05.md", FIXED.replace("**Sign", "**Status:** Won't Fix\n\n**Sign"), "closed"),
        # `closed` may lie in both.
        ("batch7/B7-PT-05.md", FIXED.replace("`fixed`", "`closed`"), "batch7"),
    ],
)
def test_fix_moves_a_file_where_its_status_says(tmp_path: Path, path: str, text: str, goes_to: str) -> None:
    put(tmp_path / "tickets", path, text.replace("B7-PT-01", "B7-PT-05"))
    fix(tmp_path / "tickets")
    assert list(everything(tmp_path / "tickets")) == [f"{goes_to}/B7-PT-05.md"]


def test_fix_overwrites_nothing(folder: Path) -> None:
    put(folder, "closed/B7-PT-02.md", FIXED.replace("B7-PT-01", "B7-PT-02"))
    before = everything(folder)
    with pytest.raises(StoreConflictError, match="exists already"):
        fix(folder, select=["TK043"])
    assert everything(folder) == before


# What our own tools write, and what people wrote.


def test_a_new_ticket_lacks_nothing_yet(tmp_path: Path) -> None:
    """The empty forms of a new ticket are no resolution and no placeholder; a week later its review is missed."""
    ticket_id = parse_ticket_id("B7-PT-01")
    finding = make_finding(severity=Severity.P1)
    put(tmp_path / "tickets", "batch7/B7-PT-01.md", render_ticket([finding], ticket_id, datetime.date.today(), "train"))
    assert found(lint_with(tmp_path / "tickets")) == []
    week_ago = datetime.date.today() - datetime.timedelta(days=7)
    put(tmp_path / "tickets", "batch7/B7-PT-01.md", render_ticket([finding], ticket_id, week_ago, "train"))
    assert found(lint_with(tmp_path / "tickets")) == [("TK060", "B7-PT-01.md")]


def test_a_new_ticket_by_hand_with_few_words_lacks_nothing_yet(tmp_path: Path) -> None:
    """No file, no line, no domain, no category and no report: a person's note is no error on its first day."""
    ticket_id, draft = parse_ticket_id("B7-PT-01"), Draft("The norm overflows", Severity.P1)
    for days, rules in ((0, set()), (7, {"TK005", "TK021", "TK032", "TK034", "TK060", "TK081"})):
        written = render_draft(draft, ticket_id, datetime.date.today() - datetime.timedelta(days=days))
        put(tmp_path / "tickets", "batch7/B7-PT-01.md", written)
        assert {rule for rule, _ in found(lint_with(tmp_path / "tickets"))} == rules


@pytest.mark.parametrize("name", ["Fixed", "WONT_FIX", "wont-fix", "Won't Fix", "not_a_bug", "Duplicates", "done"])
def test_a_folder_named_after_a_status_is_known_in_any_spelling(name: str, tmp_path: Path) -> None:
    """Tickets in it are finished, and one that is not is told so; a folder of another name is still none."""
    folder = tmp_path / "tickets"
    words = {"Fixed": "fixed", "not_a_bug": "not-a-bug", "Duplicates": "duplicate", "done": "fixed"}
    status = words.get(name, "wont-fix")
    put(folder, f"{name}/B7-PT-01.md", FIXED.replace("`fixed`", f"`{status}`"))
    put(folder, f"{name}/B7-PT-02.md", another(OPEN, "B7-PT-02"))
    assert {rule for rule, file in found(lint_with(folder)) if file == "B7-PT-02.md"} >= {"TK041", "TK044"}
    assert {rule for rule, _ in found(lint_with(folder))} & {"TK042", "TK043", "TK050"} == set()
    put(folder, "archive/B7-PT-03.md", another(OPEN, "B7-PT-03"))
    assert ("TK050", "B7-PT-03.md") in found(lint_with(folder))
    configured = "lint: {folders: {fixed: [fixed]}}\n"
    assert ("TK050", "B7-PT-02.md") in found(lint_with(folder, configured))


def test_a_message_quotes_the_beginning_of_a_value_of_megabytes(tmp_path: Path) -> None:
    put(tmp_path / "tickets", "batch7/B7-PT-01.md", changed(OPEN, ("`open`", f"`{'x' * 5_000_000}`")))
    assert max(len(each.message) for each in lint_with(tmp_path / "tickets").findings) < 1100


def test_two_tickets_that_auditkit_filed_are_told_apart_already(tmp_path: Path) -> None:
    """Titles of one probe in one file are alike; those of which a person wrote one are worth a look."""
    for number, line in ((1, 10), (2, 80)):
        place = Location("src/train/norms.py", line, f"norm_{number}")
        finding = make_finding(target=f"train.norms:norm_{number}", fingerprint=f"p/1/{number}", location=place)
        ticket_id = parse_ticket_id(f"B7-PT-0{number}")
        text = render_ticket([finding], ticket_id, datetime.date.today(), "train")
        put(tmp_path / "tickets", f"batch7/{ticket_id}.md", text)
    assert found(lint_with(tmp_path / "tickets", select=("TK092",))) == []
    by_hand = (
        text.decode().replace("auditkit:fingerprint", "no:fingerprint").replace("auditkit:evidence", "no:evidence")
    )
    put(tmp_path / "tickets", "batch7/B7-PT-02.md", by_hand)
    assert found(lint_with(tmp_path / "tickets", select=("TK092",))) == [("TK092", "B7-PT-01.md")]


def test_a_new_ticket_of_a_projects_own_agent_is_known(tmp_path: Path) -> None:
    """Its id and its Agent row are what `agents` says, and what the filing job writes with these agents."""
    yaml = "agents: {SEC: security}\n"
    agents = read_config(put(tmp_path, "auditkit.yaml", yaml)).agents
    finding = make_finding(severity=Severity.P1)
    paperwork = Paperwork({finding.probe.id: finding.probe}, 7, agent_code("Security", agents), ".", "", agents=agents)
    run = Run("r", finding.environment, (finding.result,))
    (filed,) = file_run(run, Repository(tmp_path / "tickets"), paperwork).results
    assert filed.ticket == "B7-SEC-01"
    assert found(lint_with(tmp_path / "tickets", yaml)) == []
    assert {rule for rule, _ in found(lint_with(tmp_path / "tickets"))} == {"TK002", "TK012"}


@pytest.mark.skipif(CORPUS is None, reason="no folder of real tickets on this machine")
def test_the_corpus_has_what_is_expected(tmp_path: Path) -> None:
    """Every rule that looks at one page alone: the same files, and the same lines where lines are given.

    No expectation is contested. Lines are given for findings with a value that is there; where something is
    missing, ours is the line of what it is missing from.
    """
    assert CORPUS is not None
    expected = json.loads((CORPUS / "expected.json").read_text("utf-8"))["lint"]
    report = lint(LintRequest(tickets=CORPUS / "tickets", config=put(tmp_path, "auditkit.yaml", CORPUS_CONFIG)))
    with_lines = {one["rule"] for one in expected if one["line"] is not None}
    ours = Counter(
        (one.rule, Path(one.path).relative_to(CORPUS / "tickets").as_posix(), one.line if one.rule in with_lines else 0)
        for one in report.findings
        if not one.rule.startswith(ELSEWHERE)
    )
    theirs = Counter(
        (one["rule"], one["path"], one["line"] or 0) for one in expected if not one["rule"].startswith(ELSEWHERE)
    )
    assert ours == theirs
    assert len(theirs) > 500


@pytest.mark.skipif(CORPUS is None, reason="no folder of real tickets on this machine")
def test_the_corpus_tells_its_own_values(tmp_path: Path) -> None:
    """Without configuration the folder's template gives statuses, domains and prefix: only dates are missing."""
    assert CORPUS is not None
    request = {"tickets": CORPUS / "tickets", "ignore": ["TK019", "TK066"]}
    told = lint(LintRequest(config=put(tmp_path, "auditkit.yaml", ""), **request))
    said = lint(LintRequest(config=put(tmp_path, "said.yaml", CORPUS_CONFIG), **request))
    assert told.findings == said.findings


def test_a_stale_review_is_found(folder: Path) -> None:
    """A review that says what it judged is compared with what is there now."""
    file = folder / "batch7" / "B7-PT-01.md"
    put(folder, "batch7/B7-PT-01.md", changed(OPEN, ("2026-03-05 |", "2026-03-05 |\n| **Judged** | 0123456789ab |")))
    (finding,) = lint_with(folder, select=["TK058"]).findings
    assert file.read_text("utf-8").splitlines()[finding.line - 1].startswith("| **Verdict**")


def test_a_ticket_alone_is_told_what_it_is_told_among_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the tickets that it names or that name its file: the index says which, and the others are not read."""
    write_tickets(tmp_path, 120)
    put(tmp_path, f"fixed/{ticket_id(3)}.md", (tmp_path / "batch1" / f"{ticket_id(3)}.md").read_text())
    put(tmp_path, f"batch1/{ticket_id(5)}.md", "no ticket\n")
    told: dict[str, list[Any]] = {}
    for finding in lint(LintRequest(tickets=tmp_path)).findings:
        told.setdefault(finding.path, []).append(finding)
    pages: list[Path] = []
    monkeypatch.setattr(lint_module, "page_of", lambda *read: pages.append(read[1].path) or page_of(*read))
    for number in (3, 5, 8, 21, 34, 55):
        file = str(tmp_path / "batch1" / f"{ticket_id(number)}.md")
        pages.clear()
        assert list(lint(LintRequest(paths=[file], tickets=tmp_path)).findings) == told[file]
        assert len(pages) < 30
    assert {"TK004", "TK073", "TK091"} <= {finding.rule for findings in told.values() for finding in findings}
