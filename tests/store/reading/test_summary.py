"""Which numbers of a page are figures, where they stand, and which numbers are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditkit.store.reading.summary import read_figures

PAGE = """# Summary of 9 open tickets

| Priority | Count | Percentage | Description |
|----------|-------|------------|-------------|
| **P1** | 2 | 22.2% | line 40 |
| **P2** | **7** | ~78 % | 3 files |

```
P1  ██ 2
P2  ███████ 7
x = 12
```

| Agent | P1 | P2 | Line |
|-------|----|----|------|
| DRL | 1 | 0 | 88 |

| Domain | Mentions |
|--------|---------:|
| loop | 41 (twice) |

### Soon (P1): 2 tickets

About 22% are P1, while 2 "correctness bugs" (22.2%) are known. It took 4.5 hours on 3 machines.

### P2 - Later (7)

### P0 (Critical) - None found

<!-- 5 tickets -->
- **1 P4** issue, 12 batches, and a low dead code count (3).
"""

FIGURES = [
    (1, "9", ("open tickets",), "", ""),
    (5, "2", ("P1",), "Priority", "Count"),
    (5, "22.2%", ("P1",), "Priority", "Percentage"),
    (6, "7", ("P2",), "Priority", "Count"),
    (6, "~78%", ("P2",), "Priority", "Percentage"),
    (9, "2", ("P1",), "", ""),
    (10, "7", ("P2",), "", ""),
    (16, "1", ("DRL", "P1"), "Agent", ""),
    (16, "0", ("DRL", "P2"), "Agent", ""),
    (20, "41", ("loop",), "Domain", "Mentions"),
    (22, "2", ("Soon (P1)",), "", ""),
    (24, "~22%", ("P1",), "", ""),
    (24, "2", ("correctness bugs",), "", ""),
    (24, "22.2%", ("correctness bugs",), "", ""),
    (26, "7", ("P2",), "", ""),
    (28, "0", ("P0",), "", ""),
    (31, "1", ("P4 issue",), "", ""),
    (31, "12", ("batches",), "", ""),
    (31, "3", ("dead code",), "", ""),
]


def test_figures_of_a_page() -> None:
    found = read_figures(PAGE.encode())
    assert [(one.line, one.written, one.labels, one.subject, one.unit) for one in found] == FIGURES


def test_a_figure_stands_where_its_column_says() -> None:
    lines = PAGE.split("\n")
    for one in read_figures(PAGE.encode()):
        there = lines[one.line - 1][one.column - 1 :]
        assert there.startswith(("None", one.written.strip("~%"), "~78")), one


def test_columns_count_characters_also_behind_an_umlaut_and_windows_line_ends() -> None:
    (one,) = read_figures("| Größe | Count |\r\n|---|---|\r\n| Öl P1 | 4 |\r\n".encode())
    assert (one.line, one.column, one.written, one.labels) == (3, 11, "4", ("Öl P1",))


def test_headings_above_a_figure() -> None:
    (one,) = read_figures(b"# A\n\n## Batch 2\n\n### Old\n\n## Batch 3\n\n3 open tickets\n")
    assert one.headings == ("A", "Batch 3")


@pytest.mark.parametrize(
    "text",
    [
        "Python 3.11, torch 2.13 and 16 GiB of memory.",
        "Lines 320-325 of B2-PT-03 take 95% of the time.",
        "| Line | Issue |\n|---|---|\n| P1 | 12 |\n",
        "See #12 and https://example.org/3 tickets-page",
        "```\n12 tickets\n```",
        "<!-- 12 tickets -->",
        "It grew by 7 MB (40%).",
    ],
)
def test_numbers_that_are_no_figures(text: str) -> None:
    assert read_figures(text.encode()) == ()


def test_tickets_of_which_nobody_knows_which_are_not_taken_for_all() -> None:
    (one,) = read_figures(b"We closed 12 tickets.")
    assert one.labels == ("some tickets",)
    (one,) = read_figures(b"Low for 12 tickets.")
    assert one.labels == ("total tickets",)


@given(data=st.binary(max_size=300) | st.text(alphabet='|P1-4 %().:#`~0\n*"tickets█', max_size=200).map(str.encode))
def test_any_bytes_can_be_read(data: bytes) -> None:
    lines = data.count(b"\n") + 1
    for one in read_figures(data):
        assert 1 <= one.line <= lines
        assert one.column >= 1
        assert one.value >= 0
