"""What the process of a job is told, and the command that starts it on any engine."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from auditkit.model.codec import Record
from auditkit.workflows.sweep.jobs import Job

_MODULE = "auditkit.workflows.sweep.execution"


@dataclass(frozen=True)
class Order(Record):
    """All that the process is told: the job, the sweep's folder, and where this machine keeps clones and environments.

    `attempts` is how often the job may begin. `interpreters` stand, by torch's version, for environments that would be
    made. `fresh` asks anew what earlier commands were told of the same bytes. With `cage` everything of the job runs in
    a sandbox.
    """

    folder: str
    attempts: int
    cache: str
    job: Job
    clones: str = ""
    interpreters: Mapping[str, str] = field(default_factory=dict)
    fresh: bool = False
    cage: bool = False


def command_of(order: Order) -> tuple[str, ...]:
    """The command that does a job, on any node that has this interpreter and the sweep's folder."""
    text = json.dumps(order.to_json(), separators=(",", ":"))
    return (sys.executable, "-P", "-m", _MODULE, text)
