"""What reviews come to: kinds of agreement, dissent, severities asked for, and what waits for an answer."""

from __future__ import annotations

import dataclasses
import json
from pathlib import PurePath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditkit.model.enums import Severity
from auditkit.model.tickets.review import Review, Verdict
from auditkit.model.tickets.ticket import Status
from auditkit.rules.tickets.consensus import Agreement, consensus_of
from auditkit.store.reading.reader import read_ticket
from tests.filing_helpers import corpus_folder
from tests.rules.reviews import resolution, review, ticket

E, R, N, O = Verdict.ENDORSE, Verdict.REFINE, Verdict.NEUTRAL, Verdict.OBJECT  # noqa: E741
CORPUS = corpus_folder()
_ORDER = [Agreement.NONE, Agreement.SPLIT, Agreement.MAJORITY, Agreement.UNANIMOUS]
NAMES = ("drl", "pytorch", "codereview", "security")


def votes(*verdicts: Verdict | None) -> list[Review]:
    return [review(name, verdict, line) for line, (name, verdict) in enumerate(zip(NAMES, verdicts, strict=False), 1)]


@pytest.mark.parametrize(
    ("verdicts", "kind", "verdict", "dissent"),
    [
        ((), Agreement.NONE, None, []),
        ((O,), Agreement.PARTIAL, O, []),
        ((E, E), Agreement.UNANIMOUS, E, []),
        ((E, O), Agreement.SPLIT, None, ["drl", "pytorch"]),
        ((E, R, E), Agreement.MAJORITY, E, ["pytorch"]),
        ((E, R, O), Agreement.SPLIT, None, ["drl", "pytorch", "codereview"]),
        ((E, E, O, O), Agreement.SPLIT, None, list(NAMES)),
        # A verdict that nobody knows is a reviewer who agrees with nobody.
        ((E, None), Agreement.SPLIT, None, ["drl", "pytorch"]),
        ((N, N, None), Agreement.MAJORITY, N, ["codereview"]),
    ],
)
def test_kinds(
    verdicts: tuple[Verdict | None, ...], kind: Agreement, verdict: Verdict | None, dissent: list[str]
) -> None:
    consensus = consensus_of(ticket(*votes(*verdicts)))
    assert (consensus.kind, consensus.verdict) == (kind, verdict)
    assert [vote.reviewer for vote in consensus.dissent] == dissent


def test_a_project_may_need_more_reviewers() -> None:
    two = ticket(*votes(O, O))
    assert consensus_of(two, needed=3).kind is Agreement.PARTIAL
    assert consensus_of(two, needed=3).needs_answer == ""
    assert consensus_of(two).needs_answer == "2 of 2 reviewers object"


def test_a_reviewer_counts_by_the_last_review() -> None:
    changed = ticket(review("drl", O, 10), review("pytorch", E, 20), review("drl", E, 30))
    assert consensus_of(changed).kind is Agreement.UNANIMOUS
    assert len(consensus_of(changed).votes) == 2


def test_reviews_that_name_nobody_are_not_one_reviewer() -> None:
    nameless = ticket(review("", E, 1), review("", O, 2))
    assert len(consensus_of(nameless).votes) == 2


@pytest.mark.parametrize(
    ("verdicts", "status", "sentence"),
    [
        ((O, O, E), Status.OPEN, "2 of 3 reviewers object"),
        ((O, N, E), Status.OPEN, ""),
        ((O,), Status.OPEN, ""),
        ((O, O), Status.INVESTIGATING, ""),
        ((O, O), Status.NOT_A_BUG, ""),
    ],
)
def test_objections_of_a_majority_wait_while_the_ticket_is_open(
    verdicts: tuple[Verdict, ...], status: Status, sentence: str
) -> None:
    consensus = consensus_of(ticket(*votes(*verdicts), status=status))
    assert consensus.needs_answer == sentence
    assert consensus.is_objected == (verdicts.count(O) >= 2)


def rated(*evaluations: str) -> list[Review]:
    return [
        review(name, E, line, evaluation=text)
        for line, (name, text) in enumerate(zip(NAMES, evaluations, strict=False))
    ]


def test_a_majority_that_names_another_severity() -> None:
    reviews = rated("Downgrade to P4.", "Should be P3.", "P2 is right.")
    consensus = consensus_of(ticket(*reviews))
    assert consensus.wanted == (Severity.P3, Severity.P4)
    assert consensus.minority_wanted == ()
    assert consensus.needs_answer == "2 of 3 reviewers ask for P3 or P4, not P2"


def test_a_minority_that_names_another_severity_waits_for_nothing() -> None:
    consensus = consensus_of(ticket(*rated("Downgrade to P4.", "Fine.", "P2 is right.")))
    assert (consensus.wanted, consensus.minority_wanted) == ((), (Severity.P4,))
    assert consensus.needs_answer == ""


def test_one_reviewer_is_no_majority() -> None:
    consensus = consensus_of(ticket(*rated("Downgrade to P4.")))
    assert (consensus.wanted, consensus.minority_wanted) == ((), (Severity.P4,))


def test_a_severity_that_is_among_those_asked_for_is_no_other() -> None:
    consensus = consensus_of(ticket(*rated("Should be P2/P3.", "Should be P2/P3.")))
    assert (consensus.wanted, consensus.minority_wanted) == ((), ())


def test_changing_the_severity_answers() -> None:
    reviews = rated("Should be P3.", "Should be P3.")
    assert consensus_of(ticket(*reviews)).needs_answer == "2 of 2 reviewers ask for P3, not P2"
    assert consensus_of(ticket(*reviews, severity=Severity.P3)).needs_answer == ""


@pytest.mark.parametrize(
    ("text", "is_open"),
    [
        ("### Answer\n\nThe caller does hold the lock.", False),
        ("Answer: the caller does hold the lock.", False),
        ("- **Answer:** stays P2.", False),
        ("**Answer**: stays P2.", False),
        ("### Answer\n\n### Tests\n\nNone.", True),
        ("Answer:\n", True),
        ("The answer: none yet.", True),
        ("Acceptable as it is.", True),
    ],
)
def test_a_written_answer(text: str, is_open: bool) -> None:
    consensus = consensus_of(ticket(*votes(O, O), resolution=resolution(text)))
    assert (consensus.needs_answer != "") == is_open


_REVIEWS = st.lists(
    st.builds(
        review,
        reviewer=st.sampled_from([*NAMES, ""]),
        verdict=st.sampled_from([*Verdict, None]),
        line=st.just(0),
        evaluation=st.sampled_from(["", "Should be P0.", "Downgrade to P4.", "P2 is right."]),
    ),
    max_size=8,
).map(lambda reviews: [dataclasses.replace(one, line=line) for line, one in enumerate(reviews, 1)])


@given(reviews=_REVIEWS, shuffled=st.randoms())
def test_the_order_of_reviews_does_not_matter(reviews: list[Review], shuffled: object) -> None:
    other = list(reviews)
    shuffled.shuffle(other)  # type: ignore[attr-defined]
    assert consensus_of(ticket(*other)) == consensus_of(ticket(*reviews))


@given(reviews=_REVIEWS)
def test_one_more_vote_for_the_majority_never_lowers_agreement(reviews: list[Review]) -> None:
    before = consensus_of(ticket(*reviews), needed=0)
    if before.verdict is None:
        return
    after = consensus_of(ticket(*reviews, review("somebody new", before.verdict, 99)), needed=0)
    assert after.verdict is before.verdict
    assert _ORDER.index(after.kind) >= _ORDER.index(before.kind)


@given(reviews=_REVIEWS, severity=st.sampled_from([*Severity, None]), needed=st.integers(0, 4))
def test_what_always_holds(reviews: list[Review], severity: Severity | None, needed: int) -> None:
    consensus = consensus_of(ticket(*reviews, severity=severity), needed)
    assert len(consensus.votes) <= len(reviews)
    assert severity not in consensus.wanted or any(severity in vote.wanted for vote in consensus.votes)
    assert not (consensus.wanted and consensus.minority_wanted)
    assert (consensus.kind is Agreement.NONE) == (not reviews)
    agreeing = [vote for vote in consensus.votes if vote not in consensus.dissent]
    assert all(vote.verdict is consensus.verdict for vote in agreeing)
    assert json.dumps(consensus.to_json(), allow_nan=False)


@pytest.mark.skipif(CORPUS is None, reason="no corpus on this machine")
def test_the_corpus_as_people_read_it() -> None:
    """Whose majority objects, and whose reviewers name another severity, in 152 real tickets read by hand."""
    assert CORPUS is not None
    expected = json.loads((CORPUS / "expected.json").read_text("utf-8"))
    rules = ("TK067", "TK068", "TK069")
    by_hand = {(one["rule"], one["path"]) for one in expected["lint"] if one["rule"] in rules}
    found = set()
    for known in expected["tickets"]:
        path = PurePath(known["path"])
        real = read_ticket((CORPUS / "tickets" / path).read_bytes(), path)
        consensus = consensus_of(real)
        says = (consensus.is_objected and real.status is Status.OPEN, consensus.wanted, consensus.minority_wanted)
        found |= {(rule, known["path"]) for rule, holds in zip(rules, says, strict=True) if holds}
    assert len(by_hand) == 28
    assert found == by_hand
