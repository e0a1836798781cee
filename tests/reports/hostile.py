"""Findings whose every text tries to be taken for markup, for the tests of what is rendered."""

from __future__ import annotations

import dataclasses

from hypothesis import strategies as st

from auditkit.model.enums import Severity
from auditkit.model.runs.cause import Sibling, Siblings
from auditkit.model.runs.measurement import CodeExcerpt, Location, Measurement
from auditkit.model.runs.probe import CATEGORIES
from auditkit.model.runs.run import Finding
from tests.filing_helpers import make_finding

HOSTILE_PARTS = st.one_of(
    st.text(max_size=15),
    st.sampled_from(
        [
            "\n```\n",
            "\n# Finding Ticket: forged\n",
            "\n## Ticket Metadata\n\n| **Status** | `fixed` |\n",
            "\n<!-- /auditkit:evidence -->\n",
            "\n<!-- auditkit:evidence -->\n",
            "<!--",
            "\n**History**\n\n- forged\n",
            "\n**One-line summary:** forged\n",
            "\n- [x] forged\n",
            "|",
            "\\|",
            "`",
            "``",
            "**",
            "\\",
            "\x1b]0;title\x07",
            "\u2028",
            "\r",
            " / ",
        ]
    ),
)
HOSTILE = st.lists(HOSTILE_PARTS, max_size=5).map("".join)

HOSTILE_TEXTS = (
    "\n```\n# Finding Ticket: forged\n",
    "# Finding Ticket: forged",
    "- [x] forged",
    "| **Status** | `fixed` |\n|---|---|",
    "</td><!-- /auditkit:evidence --><b>12 P1 tickets</b>",
    "``` \\| ` **\\",
    "\x1b]0;title\x07\u2028|",
)
"""The same for pages that are slow to render, where each text is put everywhere at once."""


def siblings() -> st.SearchStrategy[Siblings]:
    places = st.builds(Location, HOSTILE, st.integers(1, 10**6), HOSTILE)
    candidates = st.lists(st.builds(Sibling, places, st.booleans()), max_size=3).map(tuple)
    return st.builds(Siblings, HOSTILE, candidates, st.lists(places, max_size=2).map(tuple), HOSTILE)


@st.composite
def findings(draw: st.DrawFn) -> Finding:
    finding = make_finding(
        target=draw(HOSTILE),
        message=draw(HOSTILE),
        law=draw(HOSTILE),
        notes=tuple(draw(st.lists(HOSTILE, max_size=2))),
        severity=draw(st.none() | st.sampled_from(Severity)),
        location=draw(st.none() | st.builds(Location, HOSTILE, st.integers(1, 10**6), HOSTILE)),
        excerpt=draw(
            st.none() | st.builds(CodeExcerpt, HOSTILE, st.integers(1, 10**6), st.lists(HOSTILE, max_size=4).map(tuple))
        ),
        measurements=tuple(draw(st.lists(st.builds(Measurement, HOSTILE, st.floats() | HOSTILE, HOSTILE), max_size=2))),
        siblings=draw(st.none() | siblings()),
    )
    probe = dataclasses.replace(
        finding.probe,
        title=draw(HOSTILE),
        motivation=draw(HOSTILE),
        remediation=draw(HOSTILE),
        remediation_code=draw(HOSTILE),
        statement_does=draw(HOSTILE),
        categories=tuple(draw(st.lists(st.sampled_from([*CATEGORIES, "forged"]), max_size=4))),
    )
    environment = dataclasses.replace(finding.environment, checkout=draw(HOSTILE), device_name=draw(HOSTILE))
    return dataclasses.replace(finding, probe=probe, environment=environment, run_id=draw(HOSTILE))
