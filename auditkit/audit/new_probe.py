"""Write a probe of the user's own: a file that runs at once, its two specimens, and its test."""

from __future__ import annotations

import re
from pathlib import Path

from auditkit.assets import bundled_dir
from auditkit.config.config import read_config
from auditkit.config.config_file import config_near
from auditkit.errors import BadInputError
from auditkit.files import create_files
from auditkit.probing.engine.catalog import load_catalog

DEFAULT_FOLDER = Path("probes")
_CLAIM = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def new_probe(
    claim: str, folder: Path | None = None, config: Path | None = None
) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Write `CLAIM.py`, `specimens/CLAIM/` and `tests/test_CLAIM.py` into a folder of probes: all or none.

    Return the files, the probe first, and what to do with them next.

    The folder is the named one, the first that `probes_dir` of the configuration names (default: the
    current folder's auditkit.yaml), or `probes`. Raises BadInputError for a claim that is no name, or
    that is taken, and for a file that is there already; StoreConflictError where nothing can be written.
    """
    if not _CLAIM.fullmatch(claim):
        spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", claim)
        words = re.sub(r"[^a-z0-9]+", "_", spaced.lower()).strip("_0123456789")
        hint = f"did you mean {words}?" if words else "name the defect that it would prove: norm_is_cut_off"
        raise BadInputError(f"'{claim}' is not a name for a probe: lower-case words joined by underscores", hint)
    path = config or config_near()
    configured = read_config(path, is_named=config is not None).probes_dir if path else ()
    if folder is None:
        here, folder = Path.cwd(), configured[0] if configured else DEFAULT_FOLDER
        folder = folder.relative_to(here) if folder.is_relative_to(here) else folder
    known = load_catalog(path for path in configured if path.is_dir())
    if claim in known:
        raise BadInputError(f"there is a probe {claim} already: {known[claim].path}", "auditkit probe show explains it")
    texts = {
        folder / f"{claim}.py": "probe/probe.py.txt",
        folder / "specimens" / claim / "defective.py": "probe/defective.py.txt",
        folder / "specimens" / claim / "sound.py": "probe/sound.py.txt",
        folder / "tests" / f"test_{claim}.py": "probe/test.py.txt",
    }
    title = claim.replace("_", " ").capitalize()
    templates = bundled_dir("templates")
    contents = {
        file: (templates / name).read_text("utf-8").replace("@claim@", claim).replace("@title@", title).encode()
        for file, name in texts.items()
    }
    taken = next((file for file in contents if file.exists()), None)
    if taken is not None:
        raise BadInputError(f"{taken} exists already; nothing was written", "choose another claim, or --dir")
    create_files(contents)
    probe, *_, test = texts
    return tuple(texts), (
        f"write your check into measure and judge of {probe}, and code with and without the defect into its specimens",
        f"test it: python -m pytest {test}",
        f"run it: auditkit probe run {probe} --target package.module:function; by its name, with every audit, once "
        f'auditkit.yaml says probes_dir: {probe.parent} and its lifecycle is "stable"',
    )
