"""Runs as every format has to bear them: with findings, with none, without answers, and with hostile names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from auditkit.model.enums import Evidence, Outcome, Reason, Severity
from auditkit.model.runs.baseline import Baseline, Tracked
from auditkit.model.runs.cause import Statement
from auditkit.model.runs.measurement import CodeExcerpt, Location
from auditkit.model.runs.run import Environment, ProbeResult, Run, fingerprint

PROBE = "sync_in_loop"
ENVIRONMENT = Environment("trainer", "a" * 40, False, "3.11.7", "2.13.0", "cpu", "a CPU")
HOSTILE = (
    "</testcase><failure>", "]]>", "=HYPERLINK(1)", "@maintainer #1", "![x](http://evil/x.png)", "<script>1</script>",
    "| a | b |\n|---|---|", "```\n# heading", "\x1b]0;t\x07\u2028\u202e", "{0} [link](1) {", "\ud800\udcff\ufffe\x00",
    "../../etc/passwd", "/etc/pass wd", "C:\\x", "", "\U0001f600" * 50, "x" * 5000, "# Finding Ticket: x", "- [x] a",
    "</td></tr></table><h1>No finding</h1>", "<!-- /auditkit:evidence --><b>12 P1</b>", "``` \\| ` **\\", "\n```\n# a",
    '"><img src=x onerror=p()>', "<svg onload=p()>", "</style><script>p()</script>", "[x](javascript:p())",
    "&lt;script&gt;p()", "</details></main><main>", "<a href='data:text/html,<b>'>x</a>", "**b** __c__ &quot;",
)  # fmt: skip


def result(probe: str = PROBE, target: str = "stats:layer_norms", **changes: Any) -> ProbeResult:
    """A finding of P2 at stats.py:5, unless `changes` say otherwise."""
    fields: dict[str, Any] = {
        "outcome": Outcome.REPRODUCED,
        "message": "1 line waits for the device",
        "fingerprint": fingerprint(probe, target),
        "severity": Severity.P2,
        "evidence": Evidence.MEASURED,
        "device": "cpu",
        "location": Location("stats.py", 5, "layer_norms"),
        "statement": Statement("stats.py", 5, 6),
        "excerpt": CodeExcerpt("stats.py", 4, ("def layer_norms(grads):", "    return [", "        g.norm().item()")),
        "duration_s": 0.25,
    }
    return ProbeResult(probe, 1, target, **fields | changes)


def run_of(*results: ProbeResult, **changes: Any) -> Run:
    return Run(**{"id": "20261123T055226Z-53151b", "environment": ENVIRONMENT, "results": results} | changes)


def silent(outcome: Outcome, reason: Reason, message: str, target: str = "stats:other") -> ProbeResult:
    bare = {"severity": None, "evidence": None, "location": None, "statement": None, "excerpt": None}
    return result("norm_loses_accuracy", target, outcome=outcome, reason=reason, message=message, **bare)


PASS = result("norm_depends_on_grouping", outcome=Outcome.NOT_REPRODUCED, severity=None)
NOT_ASKED = result("clip_misses_the_step", outcome=Outcome.NOT_APPLICABLE, severity=None)
UNAVAILABLE = silent(Outcome.UNAVAILABLE, Reason.NO_DEVICE, "there is no CUDA device on this machine")
ERROR = silent(Outcome.ERROR, Reason.TIMEOUT, "no result in 120 s", "stats:slow")
WORST = result("norm_overflows_on_finite_grads", severity=Severity.P1, location=Location("stats.py", 9))
MINOR = result("launches_grow_with_tensors", severity=Severity.P4, ticket="B1-PT-01")


def hostile(text: str) -> ProbeResult:
    """A finding of which everything that a target names is `text`."""
    found = result(target=f"m:{text}", message=text, location=Location(text, 3, text))
    excerpt = CodeExcerpt(text, 3, (text,))
    return replace(found, fingerprint=fingerprint(PROBE, f"m:{text}"), excerpt=excerpt, statement=None)


KNOWN = run_of(
    result(),
    WORST,
    replace(MINOR, ticket=None),
    PASS,
    baseline=Baseline(
        "tickets",
        "b" * 40,
        known=(Tracked(result().fingerprint, "B1-PT-01", "open"),),
        new=(Tracked(WORST.fingerprint, "B1-PT-02", "B1-PT-02 says fixed, and its finding reproduces again"),),
        gone=(Tracked("sync_in_loop/1/stats:old", "B1-PT-03", "the collector no longer exists"),),
        minor=1,
    ),
)
RUNS = {
    "findings": run_of(MINOR, result(), WORST, PASS, NOT_ASKED),
    "none": run_of(PASS, NOT_ASKED),
    "nothing": run_of(),
    "unavailable": run_of(UNAVAILABLE, replace(UNAVAILABLE, target="stats:b", fingerprint="norm_loses_accuracy/1/b")),
    "errors": run_of(ERROR, PASS),
    "hostile": run_of(*map(hostile, HOSTILE), id="\x1b<run>"),
    "known": KNOWN,
}
