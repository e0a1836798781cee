"""What all files of a folder of spectra have in common, and a fingerprint of it."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .shards import Stack
from .stream import written_whole

FILE_NAME = "spectra.json"
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """The settings of a run and the stacks that it analyses, both of which decide what its files hold."""

    settings: Mapping[str, Any]
    stacks: Mapping[str, Stack]

    def document(self) -> dict[str, Any]:
        """Return this as what JSON holds."""
        stacks = {name: asdict(self.stacks[name]) for name in sorted(self.stacks)}
        return {"schema": SCHEMA, "settings": dict(self.settings), "parameters": stacks}

    def fingerprint(self) -> str:
        """Return 16 hexadecimal digits that change with any setting, parameter, shape or dtype.

        The number of ranks is no part of it: the same replicas on more ranks have the same spectra.
        """
        text = json.dumps(self.document(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def write(self, folder: Path) -> None:
        """Write this into `folder`. Raises OSError."""
        document = {"fingerprint": self.fingerprint(), **self.document()}
        with written_whole(folder / FILE_NAME) as file:
            file.write(json.dumps(document, indent=1) + "\n")


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest in `folder`, None where there is none. Raises ValueError for what is no manifest."""
    path = folder / FILE_NAME
    if not path.exists():
        return None
    try:
        document = json.loads(path.read_text("utf-8"))
        stacks = {name: Stack(**stack) for name, stack in document["parameters"].items()}
        manifest = Manifest(document["settings"], stacks)
        is_ours = document["fingerprint"] == manifest.fingerprint()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is no manifest of spectra: {error}") from error
    if not is_ours:
        raise ValueError(f"{path} was changed by hand, or written by another version: its fingerprint does not match")
    return manifest


def setting_differences(before: Manifest, settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield which of `settings` are others than those of `before`."""
    for name in sorted(before.settings.keys() | settings.keys()):
        was, now = (json.dumps(one.get(name)) for one in (before.settings, settings))
        if was != now:
            yield f"{name} is {now}, not {was}"


def stack_differences(before: Manifest, stacks: Mapping[str, Stack]) -> Iterator[str]:
    """Yield which of `stacks` are others than those of `before`."""
    for name in sorted(before.stacks.keys() | stacks.keys()):
        was, now = before.stacks.get(name), stacks.get(name)
        if was != now:
            yield f"{name} is {_described(now)}, not {_described(was)}"


def _described(stack: Stack | None) -> str:
    return f"{stack.replicas} x {stack.rows} x {stack.columns} {stack.dtype}" if stack else "absent"
