"""Holds each sentence of a new ticket against its evidence: what it says that nothing behind it says."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePath

from auditkit.model.tickets.ticket import EvidenceSummary
from auditkit.probing.hosts.catalog import load_catalog
from auditkit.rendering.markdown import visible
from auditkit.rendering.ticket import MOST_VISIBLE
from auditkit.store.markdown.document import Document
from auditkit.store.reading.reader import read_ticket

_FOLDED = re.compile(r"<details>\n(<summary>.*?</summary>).*?</details>", re.DOTALL)
_FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_NUMBER = re.compile(r"(?<![\w.:/+-])-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?: %|x\b)?(?![\w:]|\.\d)")
_LINE = re.compile(r"\b[Ll]ines? (\d+)(?:-(\d+))?(?:, (`+)(.+?)\3)?")
_ERROR = re.compile(r"\b\w+(?:Error|Exception|Warning): .*")
_DIFF = re.compile(r"^```diff\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_HUNK = re.compile(r"@@ -(\d+)")
_PROMISES = ("does not reproduce", "not reproduced", "no longer reproduces", "none of the probes")


def contradictions(text: str, folder: Path) -> list[str]:
    """What a ticket of a checkout at `folder` says and its evidence, or the code, does not; [] is a sound ticket."""
    ticket = read_ticket(text.encode(), PurePath("batch1/B1-PT-01.md"))
    sections = _sections(text)
    said = f"{ticket.title}\n{ticket.summary}\n{_prose(sections['Detailed Description'])}"
    known = [number for block in ticket.evidence for number in _known(block)]
    found = [f"no figure of the evidence: {number}" for number in _numbers(said) if not _is_known(number, known)]
    found += [f"no such line: {what}" for what in _wrong_lines(sections["Detailed Description"], ticket.files, folder)]
    fix = sections["Recommended Fix"]
    found += [f"nothing was run: {line}" for line in _unproven(fix)]
    own_rows = tuple(f"| `{block.fingerprint.partition('/')[0]}` |" for block in ticket.evidence)
    figures = _figures_of_fix(fix, own_rows)
    found += [f"no figure of the evidence: {number}" for number in figures if not _is_known(number, known)]
    found += [f"no such change: {what}" for what in _wrong_changes(fix, folder)]
    found += [f"twice: {sentence}" for sentence in _repeated(text)]
    count = len(visible(text))
    return found + ([f"{count} visible lines"] if count > MOST_VISIBLE else [])


def _sections(text: str) -> dict[str, str]:
    document = Document.parse(text.encode(), PurePath("B1-PT-01.md"))
    heads = [heading for heading in document.scan.headings if heading.level == 2]
    return {head.text: document.data[head.line.end : head.section_end].decode() for head in heads}


def _prose(section: str) -> str:
    """Without code, quoted or fenced, without what was raised, and without the words for a line of code."""
    text = re.sub(r"`+[^`]*`+", "", _FENCED.sub("", section))
    return re.sub(r"\b[Ll]ines? \d+(?:-\d+)?", "", "\n".join(_ERROR.sub("", line) for line in text.split("\n")))


def _numbers(text: str) -> Iterator[str]:
    plain = re.sub(r"\(P\d\)|\bline \d+", "", text)
    return (found[0] for line in plain.split("\n") for found in _NUMBER.finditer(_ERROR.sub("", line)))


def _known(block: EvidenceSummary) -> Iterator[float]:
    for row in block.measurements:
        texts = [row.text, *row.case.values()]
        yield from (value for text in texts for value in map(_value, _NUMBER.findall(text.replace("=", " "))))
        if row.value is not None:
            yield abs(row.value)
    yield from (float(len(block.measurements)), float(len({row.value for row in block.measurements})))
    counts = Counter(row.name for row in block.measurements)
    yield from map(float, counts.values())
    yield from map(float, (len({row.case.get("dtype") for row in block.measurements}), math.nan))


def _value(text: str) -> float:
    plain = text.replace(",", "").removesuffix("x")
    return abs(float(plain[:-2]) / 100 if plain.endswith(" %") else float(plain))


def _is_known(text: str, known: list[float]) -> bool:
    """Whether it is one of them, rounded to three digits, or a quotient of two as `elements of 4` are."""
    value = _value(text)
    near = 0.02 if value < 1 else 0.006
    if any(math.isclose(value, one, rel_tol=near, abs_tol=1e-12) for one in known):
        return True
    sizes = {math.sqrt(one) for one in known if one >= 1 and float(one).is_integer()}
    return any(math.isclose(value, one / size, rel_tol=near) for one in known for size in sizes)


def _wrong_lines(section: str, files: tuple[str, ...], folder: Path) -> Iterator[str]:
    """Lines that the file has not, and code beside a line's number that does not stand there."""
    lines = (folder / files[0]).read_text(encoding="utf-8").splitlines() if files else []
    for first, last, _, code in _LINE.findall(section):
        if not 1 <= int(first) <= int(last or first) <= len(lines):
            yield f"{files[0] if files else 'no file'}:{last or first}"
        elif code:
            there = " ".join(" ".join(lines[int(first) - 1 : int(last or first)]).split())
            if code.strip().replace("\\|", "|") not in there and not code.startswith("."):
                yield f"{files[0]}:{first} is not {code}"


def _figures_of_fix(section: str, own_rows: tuple[str, ...]) -> Iterator[str]:
    """What its table says of the ticket's probes at the base, and sentences that are no probe's own advice."""
    advice = {probe.remediation for probe in load_catalog().values()}
    for line in _FENCED.sub("", section).split("\n"):
        cells = line.split(" | ")
        if line.startswith(own_rows):
            yield from _numbers(_prose(cells[1]))
        elif line.startswith("- `") and line.partition("`: ")[2] not in advice:
            yield from _numbers(_prose(line))


def _wrong_changes(section: str, folder: Path) -> Iterator[str]:
    """Lines that a diff takes away or leaves, and that do not stand there; and sentences on lines that it leaves."""
    for diff in _DIFF.findall(section):
        file, touched = "", set()
        for text in diff.split("\n"):
            if text.startswith("--- a/"):
                file, lines = text[6:], (folder / text[6:]).read_text(encoding="utf-8").split("\n")
            elif hunk := _HUNK.match(text):
                number = int(hunk[1])
                kept = number - 1
            elif text[:1] in ("-", " ") and file:
                if lines[number - 1 : number] != [text[1:]]:
                    yield f"{file}:{number} is not {text[1:].strip()}"
                touched |= {number} if text[0] == "-" else set()
                kept = kept if text[0] == "-" else number
                number += 1
            elif text.startswith("+") and not text.startswith("+++"):
                touched |= {kept, number - 1, number}  # what stands behind lines that go may come before them
        said = {int(one) for line in section.split("\n") if line.startswith("- line") for one in _said_lines(line)}
        if len(_DIFF.findall(section)) == 1:
            yield from (f"{file}:{one} stays as it is" for one in sorted(said - touched))


def _said_lines(sentence: str) -> list[str]:
    return re.findall(r"\d+", sentence.partition(":")[0])


def _unproven(section: str) -> Iterator[str]:
    """Promises outside of a table of what was run, which only a diff has."""
    was_run = "```diff" in section
    for line in section.split("\n"):
        is_row = line.startswith("|") and was_run
        is_example = line.startswith("<summary>")
        if any(promise in line for promise in _PROMISES) and not is_row and not is_example:
            yield line
    if "| patched |" in section and not was_run:
        yield "a table without a change"


def _repeated(text: str) -> list[str]:
    """Sentences that are visible more than once; tables, code, boxes and related tickets aside."""
    shown = _FENCED.sub("", _FOLDED.sub("", text))
    prose = [
        line for line in shown.split("\n") if line and line[:1] not in "|#<" and not line.startswith(("- [", "- B"))
    ]
    sentences = [part.strip(" .-*") for line in prose for part in re.split(r"(?<=[.!?]) |:\*\* |\*\*: ", line)]
    counts = Counter(one for one in sentences if len(one) > 25)
    return [sentence for sentence, count in counts.items() if count > 1]
