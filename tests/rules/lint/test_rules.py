"""Each rule about the writing of tickets: silent on a good page, and at the right place on a bad one."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import NamedTuple

import pytest

from auditkit.rules.lint.catalog import all_rules, rules_named, select_rules
from auditkit.rules.lint.rule import Level, LintSettings
from tests.rules.lint.lint_pages import FIXED, FIXED_PATH, OPEN, OPEN_PATH, SETTINGS, changed, page, problems, text_at


def told(change: str) -> tuple[str, str]:
    """A line of Status Changes, in place of nothing."""
    return "## Appendix", f"### Status Changes\n\n- 2026-03-04: {change}\n\n## Appendix"


ELSEWHERE = ("TK03", "TK051", "TK07", "TK08", "TK09")
"""Rules that compare tickets with source and with each other have tests of their own."""
OURS = [rule for rule in all_rules() if not rule.startswith(ELSEWHERE) and rule != "TK000"]

FORM = "| **Fixed By** | |"
DRL_VERDICT = "Cross-Review (DRL Specialist)\n\n| Field | Value |\n|-------|-------|\n| **Verdict** | **ENDORSE** |"
DRL_EVALUATION = "**Evaluation:** The squares of 1e20 overflow in float32, as DRL Specialist has measured."
OBJECTIONS = [("**ENDORSE**", "**OBJECT**"), ("**ENDORSE**", "**OBJECT**")]
P3 = ("**Evaluation:** The", "**Evaluation:** This should be downgraded to P3. The")


MEASURED = (
    "<!-- /auditkit:evidence -->",
    "\n| Measurement | Value | Unit | Case | Evidence |\n|--|--|--|--|--|\n| `norm` | inf | norm | n=4 | measured |\n"
    "<!-- /auditkit:evidence -->",
)


def claimed(condition: str) -> list[tuple[str, str]]:
    """A measured norm, and a claim about it."""
    said = "Squares of large gradients are inf."
    return [MEASURED, (said, f"{said} <!-- claim: norm_overflows {condition} -->")]


class Bad(NamedTuple):
    """A rule, what to change on the open or the fixed page, and what stands where it complains."""

    rule: str
    changes: list[tuple[str, str]]
    at: str
    base: str = OPEN
    path: str = ""
    count: int = 1


BAD = [
    Bad("TK001", [("# Finding Ticket: The norm", "# The norm")], "# The norm overflows"),
    Bad("TK001", [("# Finding Ticket: The norm overflows", "")], ""),
    Bad("TK002", [("`B7-PT-01`", "`7-PT-1`")], "7-PT-1`"),
    Bad("TK002", [("`B7-PT-01`", "`B7-XY-01`")], "B7-XY-01`"),
    Bad("TK002", [("| **Ticket ID** | `B7-PT-01` |\n", "")], "# Finding Ticket"),
    Bad("TK003", [("`B7-PT-01`", "`B7-PT-02`")], "B7-PT-02`"),
    Bad("TK005", [("2026-03-04", "")], "|"),
    Bad("TK005", [("| **Agent** | `pytorch` |\n", ""), ("`telemetry`", "")], "## Ticket Metadata", count=2),
    Bad("TK006", [("## Recommended Fix", "## Advice")], "# Finding Ticket"),
    Bad("TK006", [("## Appendix", "```\n## Appendix\n```")], "# Finding Ticket"),
    Bad("TK007", [("### What's Wrong", "### Wrong")], "# Finding Ticket"),
    Bad("TK008", [("`20260304-1`\n", "`20260304-1`")], ""),
    Bad("TK010", [("`P1`", "`high`")], "high`"),
    Bad("TK010", [("`P1`", "p1")], "p1 |"),
    Bad("TK011", [("`open`", "`wontfix`")], "wontfix`"),
    Bad("TK011", [("`open`", "`brewing`")], "brewing`"),
    Bad("TK012", [("`pytorch`", "`torch`")], "torch`"),
    Bad("TK013", [("| **Batch** | 7", "| **Batch** | 6")], "6 |"),
    Bad("TK013", [("| **Batch** | 7", "| **Batch** | seven")], "seven |"),
    Bad("TK014", [("`pytorch`", "`drl`")], "drl`"),
    Bad("TK015", [], "B7-PT-01`", path="batch6/B7-PT-01.md"),
    Bad("TK016a", [("`telemetry`", "`telemetri`")], "telemetri`"),
    Bad("TK016b", [("`telemetry`", "`telemetry` / `training`")], "telemetry`"),
    Bad("TK016c", [("`telemetry`", "`training/loop`")], "training/loop`"),
    Bad("TK017", [("2026-03-04", "4 March 2026")], "4 March 2026 |"),
    Bad("TK017", [("2026-03-04", "2026-02-30")], "2026-02-30 |"),
    Bad("TK017", [("| **Created**", "| **Due** | soon |\n| **Created**")], "soon |"),
    Bad("TK024", [("## Appendix", "## Discussion\n\n### ada\n\nyes\n\n## Appendix")], "### ada"),
    Bad("TK018", [("**Updated** | 2026-03-04", "**Updated** | 2026-03-03")], "2026-03-03 |"),
    Bad("TK019", [("**Created** | 2026-03-04", "**Created** | 2025-12-31")], "2025-12-31 |"),
    Bad("TK020", [("**Sign-off:** pytorch, 2026-03-04", "Fixed on 2026-03-05.")], "2026-03-04 |", FIXED),
    Bad("TK021", [("[x] Numerical", "[ ] Numerical")], "- [ ] Correctness bug"),
    Bad("TK022", [("Test coverage gap", "Tests")], "Tests"),
    Bad("TK023", [("- [ ] Test coverage gap\n", "")], "- [ ] Correctness bug"),
    Bad("TK040", [], "open`", path=FIXED_PATH),
    Bad("TK040", [("`open`", "`deferred`")], "deferred`", path=FIXED_PATH),
    Bad("TK041", [], "open`", path="closed/B7-PT-01.md"),
    Bad("TK042", [], "fixed`", FIXED, OPEN_PATH),
    Bad("TK043", [("`fixed`", "`wont-fix`")], "wont-fix`", FIXED),
    Bad("TK044", [("## Resolution", "## Other")], "fixed`", FIXED),
    Bad("TK044", [("`open`", "`wont-fix`")], "wont-fix`"),
    Bad("TK044", [], "open`", path=FIXED_PATH),
    Bad("TK045", [("**Sign-off:** pytorch, 2026-03-04", "Done.")], "## Resolution", FIXED),
    Bad("TK046", [("`8e4c59e5`", "")], "## Resolution", FIXED),
    Bad("TK047", [("[x] the tests", "[ ] the tests")], "[ ] the tests pass", FIXED),
    Bad("TK048", [(FORM, "| **Fixed By** | somebody |")], "## Resolution"),
    Bad("TK049", [("`8e4c59e5`", "(pending)")], "(pending) |", FIXED),
    Bad("TK049", [("`8e4c59e5`", "(pending)"), (FORM, "[To be filled in]")], "[To be filled in]", FIXED, count=2),
    Bad("TK050", [], "# Finding Ticket", path="archive/B7-PT-01.md"),
    Bad("TK050", [], "# Finding Ticket", path="B7-PT-01.md"),
    Bad("TK052", [("**Sign-off:**", "**Status:** Won't Fix\n\n**Sign-off:**")], "## Resolution", FIXED),
    Bad("TK053", [("**Sign-off:**", "**Status:** Duplicate\n\n**Sign-off:**")], "## Resolution", FIXED),
    Bad("TK054", [("**Sign-off:** pytorch", "**Sign-off:** drl")], "**Sign-off:** drl", FIXED),
    Bad("TK055", [("`not_reproduced`", "`reproduced`")], "reproduced`", FIXED),
    Bad("TK056", [told("open to fixed: done")], "open to"),
    Bad("TK056", [told("open to investigating to fixed: done")], "investigating to"),
    Bad("TK057", [("`open`", "`deferred`")], "deferred`"),
    Bad("TK059", [("- [ ] gradients", "- [x] gradients")], "[x] gradients"),
    Bad("TK060", [("## Cross-Review", "## Opinion")] * 3 + [("**Verdict**", "**Word**")] * 3, "# Finding Ticket"),
    Bad("TK061", [(DRL_VERDICT, "Cross-Review (Somebody)")], "| **Verdict** | **ENDORSE** |"),
    Bad("TK062", [("(DRL Specialist)", "(Somebody)")], "ENDORSE**"),
    Bad("TK063", [("**ENDORSE**", "**ENDORSE** (partly)")], "ENDORSE** (partly) |"),
    Bad("TK063", [("**ENDORSE**", "**MAYBE**")], "MAYBE** |"),
    Bad("TK064", [(DRL_EVALUATION, "")], "E"),
    Bad("TK065", [("| Field | Value |\n|-------|-------|\n| **Verdict**", "| **Verdict**")], "ENDORSE"),
    Bad("TK066", [("2026-03-05", "2025-03-05")], "ENDORSE"),
    Bad("TK067", OBJECTIONS, "open`"),
    Bad("TK068", [P3, ("**Evaluation:** The", "**Evaluation:** Downgrade to P3. The")], "P1`"),
    Bad("TK069", [P3], "P1`"),
    Bad("TK100", claimed("norm = 3"), "<!-- claim: norm_overflows norm = 3"),
    Bad("TK101", claimed("about 3"), "<!-- claim: norm_overflows about 3"),
    Bad("TK101", [("probe: norm_overflows -->", "probe: norm_overflows norm > -->")], "<!-- probe"),
    Bad("TK102", claimed("norm = inf @ n=8"), "<!-- claim"),
    Bad("TK103", claimed("norm = 3"), "<!-- claim", FIXED),
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: f"{bad.rule}-{bad.at[:20]}")
def test_a_bad_page_is_found_at_its_place(bad: Bad) -> None:
    """One problem, or as many as were made, and the first stands where the wrong value does."""
    path = bad.path or (FIXED_PATH if bad.base is FIXED else OPEN_PATH)
    one = page(changed(bad.base, *bad.changes), path)
    found = problems(bad.rule, one)
    assert len(found) == bad.count, found
    assert text_at(one, found[0]).startswith(bad.at) or (bad.at == "" and text_at(one, found[0]) == "")
    assert found[0].message


@pytest.mark.parametrize("rule", OURS)
def test_a_good_page_is_not_found(rule: str) -> None:
    assert problems(rule, page(OPEN)) == []
    assert problems(rule, page(FIXED, FIXED_PATH)) == []


def test_every_rule_has_a_bad_page() -> None:
    """TK004 takes two pages, TK058 a review that a command wrote: they have tests of their own."""
    assert {bad.rule for bad in BAD} | {"TK004", "TK058"} >= set(OURS)


def test_one_id_in_two_files() -> None:
    first, second = page(OPEN), page(FIXED, FIXED_PATH)
    (problem,) = problems("TK004", first, others=[second])
    assert (text_at(first, problem), problem.message) == ("B7-PT-01` |", "B7-PT-01 is also in fixed/B7-PT-01.md")


def test_ids_of_a_long_batch_and_of_a_projects_own_agent_are_ids() -> None:
    """The hundredth ticket has three digits; `agents` in the configuration adds codes."""
    assert problems("TK002", page(OPEN.replace("B7-PT-01", "B7-PT-100"), "batch7/B7-PT-100.md")) == []
    own = replace(SETTINGS, agents={**SETTINGS.agents, "SEC": "security"})
    one = page(OPEN.replace("B7-PT-01", "B7-SEC-01").replace("`pytorch`", "`security`"), "batch7/B7-SEC-01.md")
    assert [problems(rule, one, own) for rule in ("TK002", "TK012", "TK014")] == [[], [], []]
    assert [len(problems(rule, one)) for rule in ("TK002", "TK012", "TK014")] == [1, 1, 0]


@pytest.mark.parametrize(
    ("rule", "changes", "path"),
    [
        ("TK014", [("`pytorch`", "`PyTorch`")], OPEN_PATH),  # another spelling is TK012's
        ("TK008", [("`20260304-1`\n", "`20260304-1`\r\n")], OPEN_PATH),
        ("TK042", [("`open`", "`deferred`")], OPEN_PATH),
        ("TK043", [("`open`", "`closed`")], "closed/B7-PT-01.md"),
        ("TK048", [(FORM, "[What was done]\n\n- [ ] Code review approved")], OPEN_PATH),
        ("TK048", [told("fixed to open: it returned")], OPEN_PATH),
        ("TK048", [("`open`", "`in-review`"), (FORM, "| **Fixed By** | somebody |")], OPEN_PATH),
        ("TK044", [("`open`", "`wont-fix`"), told("open to wont-fix: only in a demo")], "closed/B7-PT-01.md"),
        ("TK056", [told("in-review to fixed: done")], OPEN_PATH),
        ("TK056", [told("open to investigating to fix-in-progress to in-review to fixed: done")], OPEN_PATH),
        ("TK057", [("`open`", "`deferred`"), (FORM, "Waits for torch 2.15.")], OPEN_PATH),
        ("TK059", [("- [ ] the tests", "- [x] the tests")], OPEN_PATH),
        ("TK024", [("## Appendix", "## Discussion\n\n### 2026-03-04 14:05, ada\n\nyes\n\n## Appendix")], OPEN_PATH),
        ("TK065", [("**ENDORSE** |", "ENDORSE |")], OPEN_PATH),
        ("TK067", [*OBJECTIONS, (FORM, "Answer: the objections are about another function.")], OPEN_PATH),
        ("TK067", [("**ENDORSE**", "**OBJECT**")], OPEN_PATH),
        ("TK068", [P3], OPEN_PATH),
        *((rule, claimed("norm = inf @ n=4"), OPEN_PATH) for rule in ("TK100", "TK101", "TK102", "TK103")),
        ("TK103", claimed("norm = 3"), OPEN_PATH),  # of an unfinished ticket it is TK100's
        ("TK101", [("probe: norm_overflows -->", "probe: norm_overflows norm > 3 -->")], OPEN_PATH),
    ],
)
def test_what_looks_bad_and_is_not(rule: str, changes: list[tuple[str, str]], path: str) -> None:
    assert problems(rule, page(changed(OPEN, *changes), path)) == []


@pytest.mark.parametrize(("line", "count"), [("**Sign-off:** pytorch, 2027-03-04", 0), ("Fixed on 2027-03-04.", 1)])
def test_a_later_sign_off_is_no_forgotten_update(line: str, count: int) -> None:
    text = changed(FIXED, ("**Sign-off:** pytorch, 2026-03-04", line))
    assert len(problems("TK020", page(text, FIXED_PATH))) == count


def test_a_project_without_values_of_its_own_allows_any_domain_and_date() -> None:
    one = page(changed(OPEN, ("`telemetry`", "`anything/at/all`"), ("2026-03-04", "1999-01-01")))
    for rule in ("TK016a", "TK016c", "TK019", "TK066"):
        assert problems(rule, one, LintSettings()) == []
        assert rule == "TK066" or len(problems(rule, one)) == 1


def test_a_project_may_do_without_folders_and_reviews() -> None:
    bare = LintSettings(folders={}, reviewers=0)
    assert problems("TK042", page(FIXED, OPEN_PATH), bare) == []
    assert problems("TK050", page(OPEN, "archive/B7-PT-01.md"), bare) == []
    alone = page(changed(OPEN, *BAD[[bad.rule for bad in BAD].index("TK060")].changes))
    assert problems("TK060", alone, bare) == []
    assert len(problems("TK060", alone)) == 1


def test_a_projects_own_folders_decide() -> None:
    """Where `closed` means mended, as in a project without `fixed`, a declined ticket must not say it."""
    own = replace(SETTINGS, folders={"fixed": ("closed", "fixed"), "closed": ("wont-fix", "not-a-bug")})
    said = ("**Sign-off:**", "**Status:** Won't Fix\n\n**Sign-off:**")
    one = page(changed(FIXED, ("`fixed`", "`closed`"), said), "closed/B7-PT-01.md")
    assert [len(problems(rule, one, own)) for rule in ("TK043", "TK052", "TK053")] == [1, 1, 0]
    assert [len(problems(rule, one)) for rule in ("TK043", "TK052", "TK053")] == [0, 0, 0]


def test_names_select_rules() -> None:
    """A longer name decides over a shorter one, and `ignore` over an equally long one."""
    assert [rule.id for rule in rules_named("tk016")] == ["TK016a", "TK016b", "TK016c"]
    assert rules_named("TK9x") == () == rules_named("")
    assert select_rules() == tuple(all_rules().values())
    chosen = {rule.id for rule in select_rules(["TK06"], ["TK061", "TK062"])}
    assert chosen == {rule for rule in all_rules() if rule.startswith("TK06")} - {"TK061", "TK062"}
    assert [rule.id for rule in select_rules(["TK061"], ["TK06"])] == ["TK061"]
    assert select_rules(["TK06"], ["TK06"]) == ()


def test_levels_are_ordered() -> None:
    assert Level.ERROR.at_least(Level.WARN)
    assert not Level.INFO.at_least(Level.WARN)
    assert SETTINGS.first_commit == datetime.date(2026, 1, 1)
