"""The script of each new ticket: that of its worst finding which has one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from auditkit.model.runs.run import Finding, Run
from auditkit.probing.engine.sandbox import Setting
from auditkit.probing.reproduce import Reproduction, reproduction


def with_reproductions(run: Run, groups: Iterable[Sequence[Finding]], setting: Setting) -> Run:
    """Return the run with a script, or the reason for none, by the fingerprint of the first finding of each group.

    The findings of a group share a cause and a ticket, the worst first. The first script that shows its defect is kept.
    """
    scripts, reasons = dict(run.scripts), dict(run.no_script)
    readings = {reading.target.call: reading for reading in run.targets}
    for group in groups:
        name = group[0].result.fingerprint
        for finding in group:
            made = reproduction(finding.result, readings.get(finding.result.target), setting)
            if isinstance(made, Reproduction):
                scripts[name] = made.markdown()
                reasons.pop(name, None)
                break
            reasons.setdefault(name, made.reason)
    return replace(run, scripts=scripts, no_script=reasons)
