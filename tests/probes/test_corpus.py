"""Collectors that try to fool the probes, and sound ones: every verdict was written before the probes ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import torch
import yaml

from auditkit.model.enums import Contract, Evidence, Outcome, Reason, Takes
from auditkit.model.runs.run import ProbeResult
from auditkit.model.runs.target import Target
from auditkit.probing.engine.catalog import load_catalog
from tests.probing_helpers import ACCURACY, GROUPING, MEMORY, MESH, RETAINED, SHARDING, TARGETS, by_probe, run_probes
from tests.sharing import one_of
from tests.source_helpers import LOOP, findings, read

pytestmark = pytest.mark.acceptance

CORPUS = TARGETS / "corpus"
VERDICTS = yaml.safe_load((CORPUS / "verdicts.yaml").read_text())
TARGET_ROWS = {row["call"]: row for row in yaml.safe_load((CORPUS / "auditkit.yaml").read_text())["targets"]}

NO_PROBE = {"why", "says", "evidence", LOOP}
"""Keys of a verdict that are no question to the target itself."""


def test_every_target_has_its_verdict() -> None:
    assert set(TARGET_ROWS) == {*VERDICTS["deceptive"], *VERDICTS["sound"]}


# The probes, as an audit asks them.


def run_on(name: str, probes: Sequence[str]) -> dict[str, ProbeResult]:
    return by_probe(run_probes(CORPUS, target(name), probes))


def target(name: str) -> Target:
    row = TARGET_ROWS[name]
    chosen = {"contract": Contract(row["contract"]), "takes": Takes(row["takes"])}
    return Target(name, finish=row.get("finish"), setup=row.get("setup"), **chosen)


def said(result: ProbeResult) -> str:
    """The outcome in the words of verdicts.yaml."""
    if result.outcome is Outcome.REPRODUCED:
        return f"reproduced {result.severity.value}" if result.severity else "reproduced"
    cannot = result.outcome is Outcome.ERROR and result.reason in (Reason.CANNOT_FEED, Reason.CANNOT_READ)
    return "cannot_feed" if cannot else result.outcome.value


def is_met(expected: str, outcome: str) -> bool:
    words = expected.replace("quiet", "not_reproduced or not_applicable").split(" or ")
    return any(outcome == word or outcome.startswith(f"{word} ") for word in words)


def judged(name: str) -> Iterator[tuple[str, bool, str]]:
    """Each verdict on a target: what was expected, whether it was met, and what the probe said."""
    verdict = VERDICTS["deceptive"][name]
    asked = {key: word for key, word in verdict.items() if key not in NO_PROBE}
    results = run_on(name, [probe for key in asked for probe in key.split(" or ")])
    for key, expected in asked.items():
        answers = [results[probe] for probe in key.split(" or ")]
        # An open verdict is one that is not met yet: who meets it takes the word away.
        met = any(is_met(expected.removesuffix(" open"), said(answer)) for answer in answers) != expected.endswith(
            " open"
        )
        spoken = [f"{said(answer)}: {answer.message}" for answer in answers]
        if expected.startswith("reproduced") and "says" in verdict:
            met = met and any(verdict["says"] in text for text in spoken)
        if verdict.get("evidence") == "simulated" and not torch.cuda.is_available():
            met = met and not any(answer.evidence is Evidence.MEASURED for answer in answers)
        yield f"{key} {expected}", met, " | ".join(spoken)


RUN = [name for name, verdict in VERDICTS["deceptive"].items() if set(verdict) - NO_PROBE]


@pytest.mark.parametrize("name", one_of(3, RUN))
def test_the_probes_are_not_fooled(name: str) -> None:
    assert [(expected, text) for expected, met, text in judged(name) if not met] == []


# Sound code launches for each tensor, reads a number in a compiled graph, and does not know uncoalesced gradients.
MINOR = {
    "launches_grow_with_tensors", "graph_breaks_under_compile", "breaks_cuda_graph_capture", "fails_on_sparse_grads",
}  # fmt: skip
ASKED = [p.id for p in load_catalog().values() if "grad_norm" in p.contracts and p.id not in MINOR]
# Probes of 1 to 10 s: by default they run on the target that each is about, on all others in the slow tests.
EXPENSIVE = {
    MEMORY: "sound_norms:total_norm", ACCURACY: "sound_norms:total_norm", GROUPING: "sound_norms:total_norm",
    SHARDING: "sound_steps:whole_norm", MESH: "sound_steps:whole_norm", RETAINED: "sound_norms:total_norm",
}  # fmt: skip


@pytest.mark.parametrize("is_slow", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", one_of(3, VERDICTS["sound"]))
def test_nothing_is_said_of_sound_code(name: str, is_slow: bool) -> None:
    probes = [probe for probe in ASKED if is_slow == (EXPENSIVE.get(probe, name) != name)]
    alarms = {
        probe: f"{said(result)}: {result.message}"
        for probe, result in run_on(name, probes).items()
        if not is_met("quiet", said(result))
    }
    assert alarms == {}


def test_waiting_loops_are_found_in_the_source_and_no_others() -> None:
    listed = {name: verdict[LOOP] for name, verdict in VERDICTS["deceptive"].items() if LOOP in verdict}
    found = {name: result.message for name, result in findings(read(CORPUS, LOOP)).items()}
    assert {name for name, word in listed.items() if word == "reproduced"} - set(found) == set()
    assert {name: text for name, text in found.items() if listed.get(name, "open") == "open"} == {}
