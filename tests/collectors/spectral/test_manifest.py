"""A folder's manifest comes back as it was, and its fingerprint changes with whatever decides the spectra."""

import dataclasses
import json
from pathlib import Path

import pytest

from auditkit.collectors.spectral.manifest import (
    FILE_NAME,
    Manifest,
    read_manifest,
    setting_differences,
    stack_differences,
)
from auditkit.collectors.spectral.shards import Stack

STACKS = {"b": Stack(6, 4, 7, "bfloat16"), "a": Stack(6, 5, 5, "float32")}
MANIFEST = Manifest({"seed": 0, "directions": None}, STACKS)


def test_a_manifest_survives_the_disk(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) is None
    MANIFEST.write(tmp_path)
    assert read_manifest(tmp_path) == MANIFEST
    document = json.loads((tmp_path / FILE_NAME).read_text())
    assert document["fingerprint"] == MANIFEST.fingerprint()
    assert list(document["parameters"]) == ["a", "b"]


def test_the_order_of_names_changes_nothing_and_anything_else_does() -> None:
    again = Manifest({"directions": None, "seed": 0}, dict(reversed(STACKS.items())))
    assert again.fingerprint() == MANIFEST.fingerprint()
    others = [
        Manifest({"seed": 1, "directions": None}, STACKS),
        Manifest({"seed": 0}, STACKS),
        Manifest(MANIFEST.settings, {"a": STACKS["a"]}),
        *(
            Manifest(MANIFEST.settings, STACKS | {"a": dataclasses.replace(STACKS["a"], **{field: value})})
            for field, value in (("replicas", 7), ("rows", 6), ("columns", 6), ("dtype", "float16"))
        ),
    ]
    assert len({manifest.fingerprint() for manifest in [MANIFEST, *others]}) == 1 + len(others)


def test_differences_are_named() -> None:
    settings = {"seed": 1, "directions": None, "batch": 4}
    assert list(setting_differences(MANIFEST, settings)) == ["batch is 4, not null", "seed is 1, not 0"]
    assert list(setting_differences(MANIFEST, MANIFEST.settings)) == []
    assert list(stack_differences(MANIFEST, {"a": STACKS["a"], "c": Stack(1, 2, 3)})) == [
        "b is absent, not 6 x 4 x 7 bfloat16",
        "c is 1 x 2 x 3 float32, not absent",
    ]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"parameters": {"a": {"rows": 1}}, "settings": {}}'])
def test_what_is_no_manifest_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    with pytest.raises(ValueError, match=r"spectra\.json is no manifest of spectra"):
        read_manifest(tmp_path)


def test_a_manifest_that_was_edited_is_refused(tmp_path: Path) -> None:
    MANIFEST.write(tmp_path)
    path = tmp_path / FILE_NAME
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
    with pytest.raises(ValueError, match="changed by hand, or written by another version"):
        read_manifest(tmp_path)
