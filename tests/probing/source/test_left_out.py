"""Which files of a checkout nobody is asked about, and what is said of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditkit.probing.source.files import LeftOut
from tests.source_helpers import write

OURS = "MIT License\n\nCopyright (c) 2020 Us\n"
THEIRS = OURS.replace("Us", "Them")


@pytest.mark.parametrize(
    ("file", "place"),
    [
        ("train.py", ""),
        ("src/oldest/a.py", ""),
        ("legacy/a.py", ""),
        ("third_party/x/a.py", "third_party/"),
        ("src/_vendor/a.py", "src/_vendor/"),
        ("archive/old/a.py", "archive/"),
        ("src/deprecated/a.py", "src/deprecated/"),
        ("records/2024-10-10_Muon/train.py", "records/20*/"),
        ("modules/sub/a.py", "modules/sub/"),
        ("copied/a.py", "copied/"),
        ("package/a.py", ""),
        ("licensed/a.py", ""),
    ],
)
def test_archives_and_what_others_wrote_are_left_out(file: str, place: str, tmp_path: Path) -> None:
    """A part of the checkout that has a setup file and the same owner is its own; so is code with a licence alone."""
    write(
        tmp_path,
        {
            "LICENSE": OURS,
            ".gitmodules": '[submodule "sub"]\n\tpath = modules/sub\n\turl = elsewhere\n',
            "copied/setup.py": "",
            "copied/LICENSE.txt": THEIRS,
            "package/setup.py": "",
            "package/LICENSE": OURS.replace("2020", "2023"),
            "licensed/LICENSE": THEIRS,
        },
    )
    assert LeftOut(tmp_path).place_of(file) == place


def test_it_is_said_in_one_line_with_what_lies_there(tmp_path: Path) -> None:
    """A pattern that nothing matches has a line of its own, also one whose files lie in an archive."""
    names = ("train.py", "archive/a.py", "archive/b.py", "vendor/c.py", "examples/d.py", ".venv/e.py")
    write(tmp_path, dict.fromkeys(names, ""))
    assert LeftOut(tmp_path, ["exampels", "examples/*"]).sentences(["train.py", "archive/a.py", "examples/d.py"]) == [
        "left out: archive/ (archived, 2 files, 1 collector), examples/* (excluded, 1 file, 1 collector), "
        "vendor/ (vendored, 1 file); --target checks functions there",
        "exclude 'exampels': no Python file matches",
    ]
    assert LeftOut(tmp_path / "archive").sentences() == []
