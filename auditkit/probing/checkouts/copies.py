"""A private copy of a checkout's files, to be changed and thrown away."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from auditkit.errors import BadInputError
from auditkit.probing.checkouts import git
from auditkit.probing.checkouts.checkout import CheckoutSpec, OpenCheckout, open_checkout
from auditkit.probing.checkouts.scratch import scratch_directory


@contextlib.contextmanager
def open_copy(spec: CheckoutSpec, python: str | Path | None = None) -> Iterator[OpenCheckout]:
    """The checkout in a directory of its own that may be written to, removed at the end of the block.

    A revision is a worktree as `open_checkout` makes it; the files as they lie are copied: in a git repository
    what it tracks, what it does not ignore and all code, elsewhere all but hidden folders and virtual environments.
    Raises BadInputError as `open_checkout` does, and for a file that cannot be copied.
    """
    with open_checkout(spec, python) as opened:
        if opened.at_revision:
            yield opened
            return
        top = _top(opened)
        with scratch_directory() as scratch:
            tree = scratch / "tree" / top.name
            try:
                _copy(top, tree)
            except OSError as error:
                raise BadInputError(f"{error.filename or top} cannot be copied: {error.strerror or error}") from None
            yield replace(opened, path=tree / opened.path.resolve().relative_to(top))


def _top(opened: OpenCheckout) -> Path:
    """What has to be copied: the repository around the checkout, else its outermost package, else itself."""
    repository = git.find_repository(opened.path) if opened.revision else None
    if repository is not None:
        return repository.top
    top = opened.path.resolve()
    while (top.parent / "__init__.py").is_file() and top.parent != top:
        top = top.parent
    return top


def _copy(top: Path, tree: Path) -> None:
    tree.mkdir(parents=True)
    # Ignored, and needed to import all the same: generated modules, built extensions.
    code = [name for name in _files(top) if name.endswith((".py", ".so", ".pyd"))]
    for name in dict.fromkeys([*_tracked(top), *code]):
        source, copy = top / name, tree / name
        if not source.is_file():
            continue  # deleted and not committed, a submodule, or a link that leads nowhere
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, copy)


def _tracked(top: Path) -> list[str]:
    listed = git.run_git(top, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = [name for name in listed.stdout.split("\0") if name] if listed.returncode == 0 else []
    return names or list(_files(top))


def _files(top: Path) -> Iterator[str]:
    for folder, subfolders, files in os.walk(top):
        subfolders[:] = [name for name in subfolders if not _is_left_out(Path(folder, name))]
        for name in files:
            yield str(Path(folder, name).relative_to(top))


def _is_left_out(folder: Path) -> bool:
    return (
        folder.name in ("__pycache__", "node_modules")
        or folder.name.startswith(".")
        or (folder / "pyvenv.cfg").is_file()
    )
