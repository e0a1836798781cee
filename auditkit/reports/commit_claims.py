"""What a commit message or a plan says of syncs, launches, memory, overflow and results, judged by measurements."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from auditkit.model.revisions.changes import Commit
from auditkit.model.revisions.comparison import Change, Comparison, Contrast, Trend
from auditkit.reports.requirements import (
    SAME_ANSWERS,
    Requirement,
    State,
    Wanted,
    in_words,
    judge_requirement,
    parse_requirement,
)

_TOPICS = (
    (re.compile(r"\bsync(?:s|hroni[sz]\w*)?\b|\.item\(\)", re.IGNORECASE), "syncs_grow_with_tensors"),
    (re.compile(r"\blaunch\w*|\bkernels?\b", re.IGNORECASE), "launches_grow_with_tensors"),
    (re.compile(r"\bmemory\b|\ballocat\w*|\btemporar(?:y|ies)\b", re.IGNORECASE), "peak_memory_grows_with_params"),
    (re.compile(r"\boverflow\w*", re.IGNORECASE), "norm_overflows_on_finite_grads"),
    (re.compile(r"\bunderflow\w*", re.IGNORECASE), "norm_underflows_to_zero"),
    (re.compile(r"\bgraph breaks?\b|\bfullgraph\b", re.IGNORECASE), "graph_breaks_under_compile"),
)
_SAME = re.compile(
    r"\bequivalen\w+|\bsame (?:results?|answers?|values?|outputs?|api)|\bno (?:behaviou?r\w*|functional) change",
    re.IGNORECASE,
)
_TESTS_PASS = re.compile(r"\btests?\b.*\bpass\w*|\bpass\w*\b.*\btests?\b", re.IGNORECASE)
TESTS = "tests"
"""What stands for a probe where a message says that tests pass."""
NOT_RUN = "run them at both revisions with --tests COMMAND"
_FEWER = re.compile(
    r"\breduc\w+|\bcut\w*|\bfewer\b|\bless\b|\blower\w*|\beliminat\w+|\bremov\w+|\breplac\w+|\bavoid\w*|\bsingle\b|\bone\b",
    re.IGNORECASE,
)
_GONE = re.compile(r"\bfix\w*|\bprevent\w*|\bavoid\w*|\beliminat\w+|\bno longer\b|\bno more\b|\bstop\w*", re.IGNORECASE)
_CONSTANT = re.compile(r"\bO\(1\)|\bconstant\b", re.IGNORECASE)
_LINEAR = re.compile(r"\bO\([nN]\w*\)|\bper[- ](?:parameter|tensor|layer)\b")
_DEFECTS = ("norm_overflows_on_finite_grads", "norm_underflows_to_zero", "graph_breaks_under_compile")
_TRAILER = re.compile(r"^[A-Z][\w-]+-[Bb]y: |^(?:Closes|Fixes|Refs?)\b|https?://|^#")
_BULLET = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
_GENERATED = re.compile("[^\x00-\x7f]\\s*Generated with")


@dataclass(frozen=True)
class _Said:
    """A sentence of a message, and the topic of a probe that it speaks of."""

    text: str
    probe: str


def claims_of_commits(commits: Iterable[Commit], comparison: Comparison) -> tuple[Requirement, ...]:
    """Every sentence that claims something that was measured, each once, with what the measurement says."""
    found: dict[tuple[str, str], Requirement] = {}
    for commit in commits:
        for said in _claims(commit.message):
            found.setdefault((said.text, said.probe), _judged(said, "commit message", comparison))
    return tuple(found.values())


_BOX = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+\[[ xX]\]\s+(?P<text>.+?)\s*$", re.MULTILINE)


def claims_of_plan(plan: str, comparison: Comparison) -> tuple[Requirement, ...]:
    """Each checkbox of a plan in Markdown: a requirement by `parse_requirement`, or a claim as in a commit message."""
    found = []
    for match in _BOX.finditer(plan):
        text = match["text"].replace("`", "")
        try:
            found.append(judge_requirement(parse_requirement(text), comparison))
        except ValueError:
            claims = list(_claims(text))
            found += [_judged(each, "plan", comparison) for each in claims]
            if not claims:
                found.append(Requirement(text, "plan", State.NOT_MEASURABLE, "no probe measures it"))
    return tuple(found)


def _claims(message: str) -> Iterator[_Said]:
    for sentence in sentences(message):
        if _SAME.search(sentence):
            yield _Said(sentence, SAME_ANSWERS)
        if _TESTS_PASS.search(sentence):
            yield _Said(sentence, TESTS)
        for topic, probe in _TOPICS:
            pattern = _GONE if probe in _DEFECTS else _FEWER
            if topic.search(sentence) and (pattern.search(sentence) or _CONSTANT.search(sentence)):
                yield _Said(sentence, probe)


def sentences(message: str) -> Iterator[str]:
    """A message's bullets and sentences, each on one line; trailers and addresses left out."""
    block: list[str] = []
    for line in [*message.splitlines(), ""]:
        if not line.strip() or _TRAILER.search(line.strip()) or _GENERATED.search(line) or _BULLET.match(line):
            yield from _split(" ".join(block))
            block = [_BULLET.sub("", line).strip()] if _BULLET.match(line) else []
        else:
            block.append(line.strip())
    yield from _split(" ".join(block))


def _split(text: str) -> Iterator[str]:
    for part in re.split(r"(?<=[.!?])\s+(?=[A-Z])", text):
        if part.strip():
            yield part.strip().rstrip(".")


def _judged(said: _Said, origin: str, comparison: Comparison) -> Requirement:
    if said.probe == TESTS:
        return Requirement(said.text, origin, State.NOT_MEASURABLE, NOT_RUN)
    if said.probe == SAME_ANSWERS:
        return judge_requirement(Wanted(said.text, origin, SAME_ANSWERS, "same"), comparison)
    asked = [one for one in comparison.contrasts if one.probe == said.probe]
    if said.probe in _DEFECTS or not asked:
        wanted = parse_requirement(f"{said.probe}: {Change.FIXED.value}", origin)
        judged = judge_requirement(wanted, comparison)
    else:
        judged = _judge_fewer(said, asked)
    return Requirement(said.text, origin, judged.state, judged.message, judged.evidence)


def _judge_fewer(said: _Said, asked: list[Contrast]) -> Requirement:
    """Fewer of something: constant at the head where it says so, growing at the base where it says that."""
    known = [one for one in asked if one.change not in (Change.NOT_COMPARABLE, Change.NOT_APPLICABLE)]
    if not known:
        return Requirement(said.text, "", State.NOT_MEASURABLE, asked[0].reason)
    wrong = [message for one in known if (message := _why_wrong(said.text, one))]
    state = State.NOT_MET if wrong else State.MET
    messages = dict.fromkeys(wrong or map(in_words, known))
    return Requirement(said.text, "", state, "; ".join(messages), known[0].evidence)


def _why_wrong(text: str, contrast: Contrast) -> str:
    laws = [side.law.removeprefix("about ") if side else "" for side in (contrast.base, contrast.head)]
    told = in_words(contrast)
    if _CONSTANT.search(text) and "n" in laws[1].partition(" ")[0]:
        return f"it still grows: {told}"
    if _LINEAR.search(text) and laws[0] and "n" not in laws[0].partition(" ")[0]:
        return f"it did not grow with the tensors before: {told}"
    if contrast.change is Change.FIXED or contrast.trend in (Trend.BETTER,):
        return ""
    return f"it did not fall: {told}"
