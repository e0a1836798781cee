"""What changed in a function from one revision to another, in a real repository."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditkit.model.runs.measurement import Location
from auditkit.probing.checkouts.checkout import open_checkout
from auditkit.probing.source_code.history.function_history import FunctionHistories

pytestmark = pytest.mark.process

NORM = """def total_norm(grads):
    total = 0.0
    for grad in grads:
        total += float((grad * grad).sum())
    return total ** 0.5
"""
OTHER = "\n\ndef count(grads):\n    return len([grad for grad in grads if grad is not None and grad.numel() > 0])\n"
FILE = "norms.py"


def _commit(folder: Path, message: str, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    git = ["git", "-C", str(folder), "-c", "user.name=Dana", "-c", "user.email=dana@example.org"]
    for words in (["init", "--quiet"], ["add", "-A"], ["commit", "--quiet", "-m", message]):
        subprocess.run([*git, *words], check=True)


@pytest.fixture
def histories(tmp_path: Path) -> Iterator[FunctionHistories]:
    _commit(tmp_path, "first", norms=NORM + OTHER)
    changed = NORM.replace("    return total ** 0.5\n", "    # the root\n    total = total ** 0.5\n    return total\n")
    _commit(tmp_path, "the root by itself", norms=changed + OTHER)
    _commit(tmp_path, "elsewhere", loop="x = 1\n", late="def late():\n    return 1\n")
    with open_checkout(f"{tmp_path}@HEAD~2") as base, open_checkout(tmp_path) as head:
        yield FunctionHistories(base, head, "v1")


def test_a_changed_function_has_its_lines_and_the_commits_of_its_file(histories: FunctionHistories) -> None:
    found = histories.of("norms:total_norm")
    assert found is not None
    assert (found.how, found.before, found.added, found.removed) == ("changed", "", 3, 1)
    assert [commit.subject for commit in found.commits] == ["the root by itself"]
    assert found.describe() == "`norms:total_norm` changed since v1 (+3 -1 lines)."


def test_its_neighbour_is_the_same_although_the_file_changed(histories: FunctionHistories) -> None:
    found = histories.of("norms:count")
    assert found is not None
    assert (found.how, found.added, found.removed, found.commits) == ("same", 0, 0, ())
    assert found.describe() == "Nothing in `norms:count` since v1: what was found is older."


def test_a_new_function_is_new(histories: FunctionHistories) -> None:
    found = histories.of("late:late")
    assert found is not None
    assert (found.how, found.added, found.removed) == ("new", 2, 0)
    assert [commit.subject for commit in found.commits] == ["elsewhere"]


def test_the_function_of_a_location_goes_before_the_target(histories: FunctionHistories) -> None:
    of_place = histories.at(Location(FILE, 8, "count"), ["norms:total_norm"])
    of_target = histories.at(Location("gone.py", 1, "x"), ["norms:missing", "norms:total_norm"])
    assert (of_place and of_place.call, of_target and of_target.call) == ("norms:count", "norms:total_norm")
    assert histories.at(None, ["norms:missing"]) is None
