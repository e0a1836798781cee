"""Write docs/evidence/field.md from a merged sweep of benchmarks/field.yaml: norms and clipping in public code.

    auditkit sweep plan benchmarks/field.yaml > field.jsonl
    auditkit sweep run field.jsonl --results field
    auditkit sweep merge field --no-tickets
    python -m benchmarks.field field/merged

The page says what to tell each project, without a line of these repositories. benchmarks/results/field.json holds the
cells of the table and the findings.
"""

from __future__ import annotations

import csv
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from auditkit.model.enums import Outcome, Severity
from auditkit.model.runs.run import ArmOutcome, ProbeResult, Run
from auditkit.model.text import counted
from auditkit.probing.engine.catalog import load_catalog
from benchmarks.evidence import store_results, write_blocks

NAME = "field"
PROBES = load_catalog()
_ANSWERS = (Outcome.REPRODUCED, Outcome.NOT_REPRODUCED)


class Project:
    """One checkout of the sweep: its jobs by torch, and what reproduced in any of them."""

    def __init__(self, jobs: Sequence[dict[str, str]], run: Run) -> None:
        self.jobs = jobs
        self.name, self.url, self.revision = (jobs[0][key] for key in ("name", "repository", "revision"))
        prefix = f"{self.name}/"
        self.results = [one for one in run.results if one.target.startswith(prefix)]
        found = [one for one in self.results if one.outcome is Outcome.REPRODUCED and one.severity is not None]
        own = [one for one in found if not one.owner and one.severity is not Severity.P4]
        # A function and the block that calls it may have one defect.
        self.own = list({(one.probe, one.location): one for one in sorted(own, key=_gravest)}.values())
        self.minor = [one for one in found if not one.owner and one.severity is Severity.P4]
        self.of_libraries = [one for one in found if one.owner]

    @property
    def is_answered(self) -> bool:
        return any(job["status"] == "answered" and job["answers"] not in ("", "0") for job in self.jobs)

    def paragraph(self) -> str:
        """What to tell its maintainers."""
        head = f"**[{'/'.join(self.url.split('/')[-2:])}]({self.url})** at `{self.revision[:10]}`: "
        if not self.is_answered:
            return f"{head}no answer. {_sentence(self.jobs[-1]['reason'] or 'nothing was asked')}"
        asked = self._places(*_ANSWERS)
        silent = self._places(Outcome.UNAVAILABLE) - asked
        answers = max(int(job["answers"] or 0) for job in self.jobs)
        said = [f"{head}{counted(answers, 'answer')} about {counted(len(asked), 'place')}."]
        if silent:
            said.append(f"CUDA alone runs {counted(len(silent), 'more place')}: no answer here.")
        if not self.own:
            said.append("Nothing of its own reproduces that ordinary training would meet.")
        if self.minor or self.of_libraries:
            owners = ", ".join(f"`{owner}`" for owner in sorted({_owner(one) for one in self.of_libraries}))
            parts = [
                counted(len(self.minor), "minor limit") + " (P4) of its own" if self.minor else "",
                f"{counted(len(self.of_libraries), 'limit')} of {owners}, which it calls" if owners else "",
            ]
            said.append(f"Beside that: {' and '.join(filter(None, parts))}.")
        return "\n".join([" ".join(said), *([""] if self.own else []), *map(self._finding, self.own)])

    def _places(self, *outcomes: Outcome) -> set[str]:
        return {one.target for one in self.results if any(arm.outcome in outcomes for arm in one.arms)}

    def _finding(self, one: ProbeResult) -> str:
        place = one.location
        where = f"`{place.file.removeprefix(f'{self.name}/')}:{place.line}`" if place is not None else "its source"
        where += f" in `{place.function}`" if place is not None and place.function else ""
        arms = [arm for arm in one.arms if arm.outcome is Outcome.REPRODUCED]
        without = [_version(arm) for arm in one.arms if arm.outcome is Outcome.NOT_REPRODUCED]
        since = f", not with torch {', '.join(without)}" if without else ""
        advice = _first(PROBES[one.probe].remediation)
        return f"- {one.severity} {where}, {one.evidence}{since}: {arms[-1].message.rstrip('.')}. {advice}".rstrip()


def _gravest(one: ProbeResult) -> str:
    return str(one.severity)


def _version(arm: ArmOutcome) -> str:
    return arm.environment.torch.partition("+")[0]


def _owner(one: ProbeResult) -> str:
    return one.owner.rpartition(": ")[2]


def _first(advice: str) -> str:
    sentence = " ".join(advice.split()).partition(". ")[0].rstrip(".")
    return f"{sentence}." if sentence else ""


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def changes(run: Run) -> Iterator[str]:
    """Where one torch is answered otherwise than another: what is asked, in how many checkouts, and the answers."""
    groups: Counter[tuple[str, str, tuple[str, ...]]] = Counter()
    for one in run.results:
        answers = tuple(arm.answer if arm.outcome in _ANSWERS else "" for arm in one.arms)
        if len({*answers} - {""}) > 1:
            groups[one.probe, _owner(one) or one.target, answers] += 1
    labels = [arm.arm for arm in max(run.results, key=lambda one: len(one.arms)).arms]
    yield f"| probe | of | checkouts | {' | '.join(labels)} |"
    yield "|---|---|---" + "|---" * len(labels) + "|"
    for (probe, what, answers), count in sorted(groups.items()):
        yield f"| `{probe}` | `{what}` | {count} | {' | '.join(answers)} |"


def summary(projects: Sequence[Project], jobs: Sequence[dict[str, str]], run: Run) -> str:
    answered = [project for project in projects if project.is_answered]
    severities = Counter(str(one.severity) for project in projects for one in project.own)
    answered_jobs = [job for job in jobs if job["status"] == "answered"]
    cpu_s = sum(float(job["cpu_seconds"] or 0) for job in jobs)
    where = f"{run.environment.device_name}, Python {run.environment.python}"
    versions = {job["torch"].partition("+")[0] for job in answered_jobs}
    return (
        f"{len(projects)} repositories, {len(versions)} versions of torch, "
        f"{len(answered_jobs)} of {len(jobs)} jobs answered, {cpu_s / 60:.0f} minutes of processor time "
        f"({where}). {len(answered)} repositories have answers; findings of their own above P4: "
        f"{', '.join(f'{count} {name}' for name, count in sorted(severities.items()))}, "
        f"in {sum(bool(project.own) for project in projects)} repositories."
    )


def main(words: Sequence[str]) -> None:
    merged = Path(words[0])
    run = Run.from_json(json.loads((merged / "matrix.json").read_text(encoding="utf-8")))
    jobs = list(csv.DictReader((merged / "jobs.csv").read_text(encoding="utf-8").splitlines()))
    by_name: dict[str, list[dict[str, str]]] = {}
    for job in jobs:
        by_name.setdefault(job["name"], []).append(job)
    projects = [Project(of_one, run) for of_one in by_name.values()]
    table = (merged / "matrix.md").read_text(encoding="utf-8").strip()
    blocks = {
        "summary": summary(projects, jobs, run),
        "table": table,
        "changes": "\n".join(changes(run)),
        "projects": "\n\n".join(project.paragraph() for project in projects),
    }
    environment = {key: value for key, value in run.environment.to_json().items() if key != "interpreter"}
    store_results(NAME, {"environment": environment, **blocks})
    write_blocks(NAME, blocks)


if __name__ == "__main__":
    main(sys.argv[1:])
