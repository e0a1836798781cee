"""Rules that compare a ticket with source, reports and other tickets: bad and good pages of our own."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from auditkit.model.tickets.page import Page
from auditkit.rules.lint.catalog import all_rules
from auditkit.rules.lint.rule import Level
from auditkit.workflows.lint.source_tree import FolderTree, GitTree, open_source_tree
from tests.rules.lint.source_pages import REPORT, context_of, found, make_repository, page

pytestmark = pytest.mark.process

PREFIX = "/home/me/project"
EVIDENCE = """### Code Evidence

```python
# src/pkg/collector.py:4-8
def collect_norms(parameters):
    total =  torch.zeros(())   # one for all
    for parameter in parameters:
```
"""


@pytest.fixture(scope="module")
def commits(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    folder = tmp_path_factory.mktemp("checkout")
    return make_repository(folder) | {"folder": str(folder)}


@pytest.fixture(scope="module")
def tree(commits: Mapping[str, str]) -> Iterator[GitTree | FolderTree]:
    with open_source_tree(Path(commits["folder"]), "main") as opened:
        yield opened


def fence(*lines: str) -> str:
    return "\n".join(["### What's Wrong", "", "```python", *lines, "```"])


PLACES: list[tuple[str, dict[str, str], list[tuple[str, str]]]] = [
    ("TK030", {}, []),
    ("TK030", {"files": "`src/pkg/`"}, []),
    ("TK030", {"files": "`./src/pkg/collector.py`"}, []),
    ("TK030", {"files": f"`{PREFIX}/src/pkg/collector.py`"}, []),
    ("TK030", {"files": "`/home/you/elsewhere/src/pkg/collector.py`"}, []),
    ("TK030", {"files": "Multiple files"}, []),
    ("TK030", {"files": "`src/pkg/colector.py`"}, [("File(s)", "src/pkg/colector.py is not in the tree")]),
    (
        "TK030",
        {"files": f"`{PREFIX}/a.py`, `b.py`"},
        [("File(s)", f"{p} is not in the tree") for p in ("a.py", "b.py")],
    ),
    ("TK031", {}, []),
    ("TK031", {"lines": "`13`"}, []),
    ("TK031", {"lines": "`14`"}, [("Line(s)", "line 14 is beyond the end of the file (13 lines)")]),
    (
        "TK031",
        {"lines": "`4-80`, `90`"},
        [("Line(s)", f"line {n} is beyond the end of the file (13 lines)") for n in (80, 90)],
    ),
    ("TK031", {"files": "`src/pkg/collector.py`, `src/pkg/report.py`", "lines": "`13`"}, []),
    (
        "TK031",
        {"files": "`src/pkg/collector.py`, `src/pkg/report.py`", "lines": "report.py: `13`, collector.py: `13`"},
        [("Line(s)", "line 13 is beyond the end of the file (2 lines)")],
    ),
    ("TK031", {"files": "`gone.py`", "lines": "`14`"}, []),
    ("TK031b", {"lines": "`4-8`, `5`"}, []),
    ("TK031b", {"lines": "`320-25`"}, [("Line(s)", "the range 320-25 ends before it starts")]),
    ("TK031c", {"description": "see collector.py:13, src/pkg/report.py:1-2, other.py:99, at 12:30"}, []),
    (
        "TK031c",
        {"description": "see `collector.py:12-14`"},
        [("see", "collector.py:12-14 is beyond the end of the file (13 lines)")],
    ),
    (
        "TK031c",
        {"description": f"```\n{PREFIX}/src/pkg/report.py:3: in show\n```"},
        [(PREFIX, f"{PREFIX}/src/pkg/report.py:3 is beyond the end of the file (2 lines)")],
    ),
    ("TK032", {}, []),
    ("TK032", {"lines": "Multiple"}, [("Line(s)", "no numeric line: Multiple")]),
    ("TK032", {"lines": ""}, [("Line(s)", "no numeric line: (empty)")]),
    ("TK033", {"files": f"`{PREFIX}/src/pkg/collector.py`, some words"}, []),
    (
        "TK033",
        {"files": f"`src/a.py`, `{PREFIX}/b.py`, `{PREFIX}-2/c.py`"},
        [("File(s)", f"path not absolute with repository prefix: {p}") for p in ("src/a.py", f"{PREFIX}-2/c.py")],
    ),
    ("TK034", {"files": "collector.py"}, []),
    ("TK034", {"files": "`Multiple files`"}, [("File(s)", "no file path in File(s): `Multiple files`")]),
    ("TK034", {"files": ""}, [("File(s)", "no file path in File(s): (empty)")]),
    ("TK035", {"lines": "collector.py: `4-8`, `src/pkg/collector.py: 9`"}, []),
    ("TK035", {"files": "Multiple files", "lines": "ppo.py: `4`"}, []),
    (
        "TK035",
        {"lines": "collector.py: `4`, ppo.py: various"},
        [("Line(s)", "Line(s) names ppo.py, which is not in File(s)")],
    ),
    ("TK035", {"lines": "ector.py: `4`"}, [("Line(s)", "Line(s) names ector.py, which is not in File(s)")]),
    ("TK038", {"function": "Various methods near `collect_norms(wrong=ones(2))`"}, []),
    ("TK038", {"files": "`gone.py`", "function": "`gather()`"}, []),
    (
        "TK038",
        {"function": "`Collector.gather()`, `total`, `norms`"},
        [("Function", "symbol(s) ['Collector', 'gather', 'norms'] not in cited file(s)")],
    ),
    ("TK039", {"description": "in tests/test_collector.py, src/.../x.py, docs/tests/none.py and src/pkg/*.py"}, []),
    ("TK039", {"files": "`src/gone.py`"}, []),
    ("TK039", {"description": "add to tests/test_new.py"}, [("add", "path tests/test_new.py not in tree")]),
    (
        "TK039",
        {"description": f"```\n# {PREFIX}/src/gone.py:4\n```"},
        [(f"# {PREFIX}", "path src/gone.py not in tree")],
    ),
]


@pytest.mark.parametrize(("rule", "parts", "expected"), PLACES)
def test_places(rule: str, parts: dict[str, str], expected: list[tuple[str, str]], tree: GitTree | FolderTree) -> None:
    one = page(**parts)
    compare(found(rule, one, context_of([one], tree, prefix=PREFIX)), expected)


def compare(problems: Sequence[tuple[str, str]], expected: Sequence[tuple[str, str]]) -> None:
    """Each problem's message, and a part of the line that it points at."""
    assert [message for _, message in problems] == [message for _, message in expected]
    for (line, _), (part, _) in zip(problems, expected, strict=True):
        assert part in line


def test_relative_paths_are_fine_without_a_prefix() -> None:
    one = page()
    assert found("TK033", one, context_of([one])) == []


NO_MATCH = fence("total = gather(everything)", "return the_norm(total)", "total = torch.zeros(())")
CODE: list[tuple[str, dict[str, str], list[tuple[str, str]]]] = [
    ("TK036", {"description": EVIDENCE}, []),
    ("TK036", {"description": NO_MATCH}, [("```python", "evidence block matches 1 of 3 lines")]),
    (
        "TK036",
        {"description": NO_MATCH.replace("What's", "What’s")},
        [("```python", "evidence block matches 1 of 3 lines")],
    ),
    (
        "TK036",
        {"description": NO_MATCH.replace("### What's Wrong", "")},
        [("```py", "evidence block matches 1 of 3 lines")],
    ),
    ("TK036", {"description": NO_MATCH.replace("### What's Wrong", "### Impact")}, []),
    ("TK036", {"description": NO_MATCH.replace("python", "text")}, []),
    ("TK036", {"description": fence("total = gather(everything)")}, []),
    ("TK036", {"description": fence("def other(self, ...):", "# why", "x = 1", "y = gather(...)", "z = gather()")}, []),
    ("TK036", {"description": fence("half = gone(1)", "return total.sqrt().item()")}, []),
    ("TK036", {"files": "`gone.py`", "description": NO_MATCH}, []),
    ("TK037", {"description": EVIDENCE}, []),
    ("TK037", {"description": EVIDENCE, "lines": "`9-10`"}, []),
    (
        "TK037",
        {"description": EVIDENCE, "lines": "`10-12`"},
        [("```python", "evidence found -5 lines from the cited range")],
    ),
    ("TK037", {"description": EVIDENCE, "lines": "`10-12`, `7`"}, []),
    (
        "TK037",
        {"description": fence("return text"), "lines": "`1-8`"},
        [("```", "evidence found +5 lines from the cited range")],
    ),
    ("TK037", {"description": NO_MATCH, "lines": "Multiple"}, []),
    ("TK037", {"description": EVIDENCE, "lines": "`90`", "files": "`src/pkg/collector.py`, `src/pkg/report.py`"}, []),
]


@pytest.mark.parametrize(("rule", "parts", "expected"), CODE)
def test_evidence(rule: str, parts: dict[str, str], expected: list[tuple[str, str]], tree: GitTree) -> None:
    one = page(**parts)
    compare(found(rule, one, context_of([one], tree)), expected)


def test_lines_that_occur_twice_say_nothing_of_the_place(tmp_path: Path) -> None:
    """`TK037` looks at unique lines only; with one it knows."""
    (tmp_path / "a.py").write_text("import one\n" + "value += 1\n" * 30 + "import two\n", "utf-8")
    with open_source_tree(tmp_path) as tree:
        for code, expected in (("value += 1", []), ("import two", ["evidence found +27 lines from the cited range"])):
            one = page(files="`a.py`", lines="`5`", description=fence(code))
            assert [message for _, message in found("TK037", one, context_of([one], tree))] == expected


def test_commits(commits: Mapping[str, str], tree: GitTree) -> None:
    known, side = commits["first"][:10], commits["side"][:10]
    one = page(status="fixed", resolution=f"Fixed in `{known}`, then `{side}`, then `0000000a1`.")
    context = context_of([one], tree)
    line = f"Fixed in `{known}`, then `{side}`, then `0000000a1`."
    assert found("TK051", one, context) == [(line, "commit 0000000a1 is not in the repository")]
    assert found("TK051b", one, context) == [(line, f"commit {side} is not an ancestor of the revision")]


def test_commits_are_not_asked_of_a_folder_without_history(tmp_path: Path) -> None:
    one = page(status="fixed", resolution="Fixed in `0000000a1`.")
    assert found("TK051", one, context_of([one], FolderTree(tmp_path, frozenset()))) == []


TABLE = "| Ticket ID | Relationship | Notes |\n|---|---|---|\n"
OTHER = {"ticket_id": "B7-CR-02", "files": "`src/pkg/report.py`", "title": "Report prints to standard output"}
RELATIONS: list[tuple[str, dict[str, str], dict[str, str], list[tuple[str, str]]]] = [
    ("TK070", {"related": "- B7-CR-02: the report"}, {}, []),
    ("TK070", {"related": "- B7-CR-99: the report"}, {}, [("- B7", "related B7-CR-99 does not exist")]),
    ("TK071", {"related": "- B7-CR-02: the report"}, {}, []),
    ("TK071", {"related": "- B7-PT-01: the report"}, {}, [("- B7", "related to itself")]),
    ("TK072", {"related": TABLE + "| `B7-CR-02` | `blocked-by` | first |"}, {}, []),
    ("TK072", {"related": "- B7-CR-02: the report"}, {}, []),
    (
        "TK072",
        {"related": TABLE + "| `B7-CR-02` | `depends` | first |"},
        {},
        [("| `B7", "relationship not one of duplicate, related, blocks, blocked-by: depends")],
    ),
    ("TK073", {"related": "- B7-CR-02: the report"}, {"related": "- B7-PT-01: the collector"}, []),
    ("TK073", {"related": "- B7-CR-99: gone"}, {}, []),
    ("TK073", {"related": "- B7-CR-02: x"}, {"description": "B7-PT-01"}, [("- B7", "B7-CR-02 does not link back")]),
    ("TK074", {"related": TABLE + "| `B7-CR-02` | `duplicate` | same |"}, {}, []),
    ("TK074", {"related": TABLE + "| `B7-CR-02` | `related` | same issue |"}, {"severity": "P4"}, []),
    (
        "TK074",
        {"related": TABLE + "| `B7-CR-02` | `duplicate` | same |"},
        {"severity": "P4"},
        [("| `B7", "duplicate of B7-CR-02 has severity P4, this P2")],
    ),
    (
        "TK074",
        {"related": "- B7-CR-02: printing (same issue, other view)"},
        {"severity": "P1"},
        [("- B7", "duplicate of B7-CR-02 has severity P1, this P2")],
    ),
    ("TK074", {"related": "- B7-CR-02: Duplicate rows in the report"}, {"severity": "P1"}, []),
    ("TK075", {"related": "- B7-CR-02 (duplicate finding)"}, {}, []),
    ("TK075", {"related": "- B7-CR-02 (duplicate finding)", "status": "duplicate"}, {"status": "fixed"}, []),
    (
        "TK075",
        {"related": "- B7-CR-02 (duplicate finding)"},
        {"status": "fixed"},
        [("- B7", "open, but a duplicate of B7-CR-02, which is fixed")],
    ),
    ("TK076", {"related": "- B7-CR-02: the report"}, {}, []),
    ("TK076", {"related": "None"}, {}, []),
    (
        "TK076",
        {"related": "- Duplicated in the review (P-4)"},
        {},
        [("- Dup", "related entry without a ticket id: - Duplicated in the review (P-4)")],
    ),
    ("TK077", {"description": "see B7-CR-02, section B7-CNN-05, and B7-PT-01 itself"}, {}, []),
    ("TK077", {"description": "see B7-CR-99", "related": "- B7-CR-99: gone"}, {}, []),
    ("TK077", {"description": "B7-CR-99 and\nB7-CR-99"}, {}, [("B7-CR-99 and", "B7-CR-99 does not exist")]),
]


@pytest.mark.parametrize(("rule", "parts", "other", "expected"), RELATIONS)
def test_relations(rule: str, parts: dict[str, str], other: dict[str, str], expected: list[tuple[str, str]]) -> None:
    one, two = page(**parts), page(**(OTHER | other))
    compare(found(rule, one, context_of([one, two])), expected)


def test_a_note_that_fits_another_ticket_is_found() -> None:
    meant = page("B7-DRL-03", title="Gradient clipping ignores frozen layers")
    named = page("B7-DRL-04", title="Learning rate schedule restarts")
    elsewhere = page("B8-DRL-03", title="Clipping ignores frozen layers", folder="batch8")
    for note, messages in {
        "clipping ignores frozen layers too": [
            "note for B7-DRL-04 (clipping ignores frozen layers too) fits B7-DRL-03 better (0.80 vs 0.00)"
        ],
        "schedule restarts, clipping ignores frozen layers": [],  # holds half of its own title as well
        "frozen layers": [],  # two words are too few
    }.items():
        one = page(related=f"- B7-DRL-04: {note}")
        problems = found("TK078", one, context_of([one, meant, named, elsewhere]))
        assert [message for _, message in problems] == messages


def test_a_note_is_compared_with_every_title_that_can_fit() -> None:
    """The index of word pairs finds the best title as a look at all of them does."""
    words = ["alpha", "beta_", "gamma", "delta", "omega", "sigma", "kappa"]

    def text(bits: int) -> str:
        return " ".join(word for index, word in enumerate(words) if (bits >> index) & 1) or "nothing"

    plain = {f"B7-PT-{number:03d}": text(number * 37 % 128) for number in range(1, 60)}
    titles = [page(ticket_id, title=title) for ticket_id, title in plain.items()]
    count = 0
    for bits in range(128):
        one = page("B7-CR-01", title="Other", related=f"- B7-PT-001: {text(bits)}")
        got = found("TK078", one, context_of([one, *titles]))
        note = set(text(bits).split())
        shares = {t: len(note & set(w.split())) / len(set(w.split())) for t, w in plain.items()}
        own = shares.pop("B7-PT-001")
        fits = [s for t, s in shares.items() if len(note & set(plain[t].split())) >= 3 and s >= 0.6 and s - own >= 0.5]
        assert [f"({max(fits):.2f} vs {own:.2f})" in message for _, message in got] == ([True] if fits else [])
        count += bool(fits)
    assert 0 < count < 128


def report_page(file: str = "docs/bugs/batch7-pytorch.md", section: str = '"P1 - Correctness of sums"') -> Page:
    return page(appendix=f"**Report file:** `{file}`\n**Section:** {section}")


def test_reports_are_looked_up_in_the_tree(tree: GitTree) -> None:
    good, moved = report_page(), report_page("docs/temp/batch7-pytorch.md")
    context = context_of([good], tree, prefix=PREFIX)
    assert found("TK080", good, context) == []
    assert found("TK080", report_page(f"{PREFIX}/docs/bugs/batch7-pytorch.md"), context) == []
    ((line, message),) = found("TK080", moved, context)
    assert line == "**Report file:** `docs/temp/batch7-pytorch.md`"
    assert message == "report docs/temp/batch7-pytorch.md not in tree (found at docs/bugs/batch7-pytorch.md)"
    ((_, message),) = found("TK080", report_page("docs/none.md"), context)
    assert message == "report docs/none.md not in tree"


def test_reports_are_looked_up_in_the_tickets_folder() -> None:
    """Without a checkout, by the path in the folder, or by the one that the checkout would have."""
    good = report_page()
    for reports, folder, count in (
        ({"docs/bugs/batch7-pytorch.md": REPORT}, "", 0),
        ({"batch7-pytorch.md": REPORT}, "docs/bugs", 0),
        ({"batch7-pytorch.md": REPORT}, "", 1),
        ({}, "docs/bugs", 1),
    ):
        assert len(found("TK080", good, context_of([good], reports=reports, folder=folder))) == count


@pytest.mark.parametrize(
    ("section", "missing"),
    [
        ('"P1 - correctness  of sums" (ID 1)', None),
        ('"squares overflow" and “Batch 7”', None),
        ("P9 - no quotation", None),
        ('"P1 - Correctness of sums" and "P2 - Speed"', "['P2 - Speed']"),
    ],
)
def test_quoted_sections(section: str, missing: str | None, tree: GitTree) -> None:
    for file in ("docs/bugs/batch7-pytorch.md", "docs/temp/batch7-pytorch.md"):  # by path, and by name
        one = report_page(file, section)
        for context in (context_of([one], tree), context_of([one], reports={"batch7-pytorch.md": REPORT})):
            messages = [message for _, message in found("TK083", one, context)]
            assert messages == ([f"quoted section not in report: {missing}"] if missing else [])


def test_a_quoted_section_of_a_report_that_is_not_there_is_not_judged() -> None:
    one = report_page("docs/none.md", '"anything"')
    assert found("TK083", one, context_of([one])) == []


def test_a_ticket_without_a_report() -> None:
    one, filed = page(appendix=""), page(appendix="", description=MEASURED)
    assert found("TK081", one, context_of([one])) == [(one.lines[0], "no report reference")]
    assert found("TK081", filed, context_of([filed])) == []
    assert found("TK081", page(), context_of([one])) == []


MEASURED = """<!-- auditkit:evidence -->
| Field | Value |
|---|---|
| **Fingerprint** | `probe/1/target` |
<!-- /auditkit:evidence -->"""


@pytest.mark.parametrize(
    ("files", "messages"),
    [
        (["batch7-pytorch.md"], []),
        (["batch7-pt.md"], []),
        (["notes.md"], []),
        (["batch7-drl.md", "batch7-pytorch.md"], []),
        (["batch7-drl.md"], ["report of B7-DRL in a ticket of B7-PT"]),
        (["batch6-pytorch.md"], ["report of B6-PT in a ticket of B7-PT"]),
    ],
)
def test_reports_of_others(files: list[str], messages: list[str]) -> None:
    one = page(appendix="\n".join(f"**Report file:** `docs/bugs/{file}`" for file in files))
    assert [message for _, message in found("TK082", one, context_of([one]))] == messages


TITLE = "Squares overflow in collect_norms"
DUPLICATE = "same file, overlapping lines, similar title ({}): B7-PT-01{}"
PAIRS: list[tuple[dict[str, Any], str, str]] = [
    ({"title": TITLE}, "TK090", DUPLICATE.format("1.00", " (not linked)")),
    ({"title": TITLE, "related": "- B7-PT-01: same issue"}, "TK090", DUPLICATE.format("1.00", "")),
    ({"title": TITLE, "lines": "`1-6`"}, "TK090", DUPLICATE.format("1.00", " (not linked)")),
    ({"title": TITLE, "lines": "`1-5`"}, "TK091", "same file, overlapping lines, not linked: B7-PT-01 (title 1.00)"),
    ({"title": TITLE, "lines": "`1-5`", "related": "- B7-PT-01"}, "", ""),
    ({"title": "Squares overflow, and more words"}, "TK090", DUPLICATE.format("0.40", " (not linked)")),
    (
        {"title": "Squares cost many more words"},
        "TK091",
        "same file, overlapping lines, not linked: B7-PT-01 (title 0.14)",
    ),
    ({"title": TITLE, "lines": "`10`"}, "TK092", "same file, other lines, similar title (1.00): B7-PT-01"),
    (
        {"title": "Overflow in collect_norms", "lines": "`1`"},
        "TK092",
        "same file, other lines, similar title (0.67): B7-PT-01",
    ),
    ({"title": "Overflow anywhere", "lines": "`1`"}, "", ""),
    ({"title": TITLE, "files": "`src/pkg/report.py`"}, "", ""),
    ({"title": TITLE, "files": "`src/pkg/collector.py`, `src/pkg/report.py`"}, "", ""),
    ({"title": TITLE, "files": "`Multiple files`"}, "", ""),
    ({"title": TITLE, "files": f"`{PREFIX}/src/pkg/collector.py`"}, "TK090", DUPLICATE.format("1.00", " (not linked)")),
]


@pytest.mark.parametrize(("other", "rule", "message"), PAIRS)
def test_pairs_are_found_in_the_ticket_that_comes_first(other: dict[str, Any], rule: str, message: str) -> None:
    one, two = page(), page("B7-CR-02", **other)
    context = context_of([one, two], prefix=PREFIX)
    for rule_id in ("TK090", "TK091", "TK092"):
        assert found(rule_id, one, context) == []
        expected = [message] if rule_id == rule else []
        assert [text for _, text in found(rule_id, two, context)] == expected


def test_pairs_are_those_of_a_comparison_of_all_with_all() -> None:
    """The passes over ordered ranges and rare words lose no pair."""
    words = ["alpha", "beta_", "gamma", "delta", "omega"]
    pages = [
        page(
            f"B7-PT-{number:02d}",
            title=" ".join(words[index] for index in range(5) if (number >> index) & 1) or "nothing",
            lines=f"`{number * 7 % 40 + 1}-{number * 7 % 40 + number % 9 + 1}`, `{number * 11 % 60 + 1}`",
        )
        for number in range(1, 60)
    ]
    context = context_of(pages)
    got = {
        (one.ticket.id, message.split(": ")[1].split(" ")[0], rule_id)
        for one in pages
        for rule_id in ("TK090", "TK091", "TK092")
        for _, message in found(rule_id, one, context)
    }
    expected = set(all_pairs(pages))
    assert got == expected
    assert {rule_id for *_, rule_id in expected} == {"TK090", "TK091", "TK092"}


def all_pairs(pages: Sequence[Page]) -> Iterator[tuple[str, str, str]]:
    def cited(one: Page) -> set[int]:
        return {line for span in one.ticket.lines for line in range(span.first, span.last + 1)}

    def title(one: Page) -> set[str]:
        return set(one.ticket.title.split())

    for number, one in enumerate(pages):
        for other in pages[number + 1 :]:
            shared = len(cited(one) & cited(other))
            likeness = len(title(one) & title(other)) / len(title(one) | title(other))
            if shared * 2 >= min(len(cited(one)), len(cited(other))) and shared and likeness >= 0.34:
                yield one.ticket.id, other.ticket.id, "TK090"
            elif shared:
                yield one.ticket.id, other.ticket.id, "TK091"
            elif likeness >= 0.5:
                yield one.ticket.id, other.ticket.id, "TK092"


LEVELS = {
    Level.ERROR: "TK030 TK031 TK031b TK051 TK070 TK071 TK072 TK075 TK080",
    Level.WARN: "TK031c TK033 TK034 TK035 TK036 TK037 TK038 TK051b TK074 TK077 TK081 TK090",
    Level.INFO: "TK032 TK039 TK073 TK076 TK078 TK082 TK083 TK091 TK092",
}
NEED_TREE = "TK030 TK031 TK031c TK036 TK037 TK038 TK039 TK051 TK051b"


@pytest.mark.parametrize(("level", "rules"), LEVELS.items())
def test_levels(level: Level, rules: str) -> None:
    for rule_id in rules.split():
        rule = all_rules()[rule_id]
        assert (rule.level, rule.needs_tree) == (level, rule_id in NEED_TREE.split())


@pytest.mark.parametrize("rule_id", " ".join(LEVELS.values()).split())
def test_a_rule_says_why_and_how_to_mend(rule_id: str) -> None:
    text = inspect.getdoc(all_rules()[rule_id].check) or ""
    assert [part for part in ("Why:", "Bad:", "Good:", "Mend:") if f"\n{part} " not in text] == []
