"""auditkit.yaml: what it gives, every complaint with its place, and the round trip of a written one."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from auditkit.config.config import Config, read_config
from auditkit.config.config_draft import render_config
from auditkit.errors import BadInputError
from auditkit.model.enums import Contract, Takes
from auditkit.model.runs.target import Target
from tests.filing_helpers import make_finding


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "workspace" / "audit"
    path.mkdir(parents=True)
    return path


def read(folder: Path, text: str, **known: list[str]) -> Config:
    path = folder / "auditkit.yaml"
    path.write_text(text)
    return read_config(path, is_named=True, **known)


def complaint(folder: Path, text: str, **known: list[str]) -> BadInputError:
    with pytest.raises(BadInputError) as caught:
        read(folder, text, **known)
    return caught.value


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "null\n", "{}\n", "targets: []\n"])
def test_an_empty_file_says_nothing(folder: Path, text: str) -> None:
    assert read(folder, text) == Config(path=folder / "auditkit.yaml")


def test_a_revision_a_command_and_a_byte_order_mark_are_fine(folder: Path) -> None:
    config = read(folder, "\ufeffcheckout: ../code@feature/x\npython: python3.11\nprobes_dir: mine\n")
    assert config.checkout == str(folder.parent / "code@feature" / "x")
    assert (config.python, config.probes_dir) == ("python3.11", (folder / "mine",))
    assert [read(folder, text).style for text in ("style: true\n", "style: false\n", "batch: 1\n")] == [
        True,
        False,
        False,
    ]


TARGET = "targets:\n  - call: m:f\n"


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("chekout: x\n", "1:1", "unknown key 'chekout'", "did you mean checkout?"),
        (TARGET + "    contract: grad_nrom\n", "3:15", "unknown contract 'grad_nrom'", "grad_norm"),
        (TARGET + "    takes: modul\n", "3:12", "unknown takes 'modul'", "module"),
        ("severity: {p: P7}\n", "1:15", "unknown severity 'P7'", "P0"),
        ("batch: seven\n", "1:8", "batch must be a whole number, not text", None),
        ("batch: -1\n", "1:8", "batch must be a whole number >= 0", None),
        ("import_roots: src\n", "1:15", "import_roots must be a list, not text", None),
        ("- a\n", "1:1", "auditkit.yaml must be a mapping, not a list", None),
        ("batch: 1\nagent: x\nbatch: 2\n", "3:1", "'batch' is given twice", "first in line 1"),
        ("1: x\n", "1:1", "a key must be text", None),
        ("checkout: ../../x\n", "1:11", "leaves the workspace", "command line"),
        ("probes_dir: [/etc]\n", "1:14", "leaves the workspace", None),
        ("accept: [replicas_drift]\n", "1:10", "is not an accepted finding", "LAW:FILE[:LINE]=REASON"),
        ("import_roots: [../src]\n", "1:16", "leaves the checkout", None),
        ("targets:\n  - name: a\n", "2:5", "misses call", None),
        ("targets: [{call: a.b.c}]\n", "1:18", "is not package.module:function", "a.b:c"),
        ("checkout: !!python/object:os.system x\n", "1:11", "os.system is not supported", None),
        ("a: b: c\n", "1:5", "not valid YAML", None),
    ],
)  # fmt: skip
def test_a_complaint_names_place_and_cause(folder: Path, text: str, place: str, message: str, hint: str | None) -> None:
    error = complaint(folder, text)
    assert error.message.startswith(f"{folder}/auditkit.yaml:{place}: ")
    assert message in error.message
    assert hint is None or hint in (error.hint or "")


def test_names_of_probes_and_thresholds_are_checked_where_they_are_known(folder: Path) -> None:
    text = "severity: {norm_overflow: P1}\npolicy: {memory_shar: 0.5}\n"
    assert read(folder, text).policy == {"memory_shar": 0.5}
    probe = replace(make_finding().probe, id="norm_overflows", policy={"memory_share": 0.5})
    error = complaint(folder, text, catalog_of=lambda _: {probe.id: probe})
    assert "unknown key 'norm_overflow' in severity" in error.message
    assert "norm_overflows" in (error.hint or "")


def test_a_link_out_of_the_workspace_is_seen(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (folder / "tickets").symlink_to(tmp_path / "outside")
    assert "leaves the workspace" in complaint(folder, "tickets: tickets\n").message


def test_an_alias_is_refused(folder: Path) -> None:
    """A few lines of them stand for gigabytes; a value that is anchored and used once is fine."""
    bomb = "a: &a [1, 1]\n" + "".join(
        f"{new}: &{new} [{', '.join(['*' + old] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    for text in (bomb, "targets: [{call: 'm:f', arguments: {x: &x [*x]}}]\n"):
        assert "an alias (*name)" in complaint(folder, text).message
    assert read(folder, "agent: &a pytorch\n").agent == "pytorch"


def test_a_file_of_more_than_a_megabyte_is_refused(folder: Path) -> None:
    read(folder, "#" * 999_000)
    assert "more than 1,000,000 bytes" in complaint(folder, "#" * 1_000_001).message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("python: ./evil\n", "may not set python"),
        ("checkout: .\n", "may not set checkout"),
        ("probes_dir: probes\n", "may not set probes_dir"),
        ("cage: false\n", "may not set cage"),
        ("tickets: ../tickets\n", "is not below"),
        ("tickets: /tmp/tickets\n", "is not below"),
        ("tickets: linked/tickets\n", "is not below"),
    ],
)
def test_a_file_that_was_found_names_no_program_and_no_place_outside(folder: Path, text: str, told: str) -> None:
    """It may have come with the checkout. The control: the same line in a file that the user names."""
    (folder / "linked").symlink_to(folder.parent.parent)
    (folder / "auditkit.yaml").write_text(text)
    with pytest.raises(BadInputError, match=told) as refused:
        read_config(folder / "auditkit.yaml")
    assert "--config" in (refused.value.hint or "")
    if "/tmp" not in text and "linked" not in text:
        read_config(folder / "auditkit.yaml", is_named=True)


def test_a_written_config_reads_back_the_same_and_says_what_was_inferred(folder: Path) -> None:
    target = Target(
        "my-pkg/x.py:f#g.2", "f", Contract.GRAD_NORM, Takes.MODULE, finish="m:h", setup="s",
        arguments={"eps": "1e-8", "n": [1.5, None], "t": "a: #b\n", "on": "yes"}, returns={"norm": "a"},
        places=("a.py:3 in f",),
    )  # fmt: skip
    written = Config(checkout="../code@v1", python=".venv/bin/python", batch=7)
    unfed = [("m:Trainer.norm", "making a Trainer needs optimizer")]
    text = render_config(written, [(target, ["reads .grad at line 3\nbatch: 8"])], unfed)
    config = read(folder, text)
    assert (config.targets, config.batch) == ((target,), 7)
    assert config.checkout == os.path.abspath(folder / "../code@v1")
    assert "    # reads .grad at line 3 batch: 8\n" in text
    assert "#   m:Trainer.norm\n#     making a Trainer needs optimizer\n" in text
