"""`--cage`: what a command line reads and writes, and the same command again in a sandbox that shows only that.

The command line decides what is mounted, and never a file of the checkout.
"""

from __future__ import annotations

import itertools
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # each module that is imported here delays every command: `typing` takes 5 ms
    from collections.abc import Iterable, Sequence

    from auditkit.config.config import Config
    from auditkit.sandbox import Mounts

OUTPUTS = frozenset((
    "--tickets", "--sarif", "--junit", "--gitlab", "--csv", "--html", "--summary", "--save", "--output", "-o",
    "--dir", "--folder", "--to",
))  # fmt: skip
"""Options that name a file or folder to write. Every other word that names something that exists is read."""


def restart(words: list[str]) -> tuple[list[str], int | None]:
    """Take a leading `--cage` from the command line; run the command in the sandbox if the user wants that.

    Returns the remaining words, and the exit code of the sandboxed command, or None if this process is to run it.
    """
    is_asked = words[:1] == ["--cage"]
    words = words[is_asked:]
    is_asked = is_asked or os.environ.get("AUDITKIT_CAGE") == "1"
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    named = _named(words, ("--config",))[:1]
    files = [path for path in (*named, os.path.join(folder, "auditkit", "auditkit.yaml")) if os.path.isfile(path)]
    if not (is_asked or files) or "_AUDITKIT_COMPLETE" in os.environ:
        return words, None
    from pathlib import Path

    from auditkit import sandbox
    from auditkit.cli.output import complain_of
    from auditkit.errors import AuditkitError

    if sandbox.inside():
        return words, None
    configs = {}
    try:
        if files:
            from auditkit.config.config import read_config

            configs = {path: read_config(Path(path), is_named=True) for path in files}
        if not (is_asked or any(config.cage for config in configs.values())):
            return words, None
        sandbox.engine()
        if words[:1] in (["sweep"], ["mcp"]):  # one sandbox for each job
            os.environ["AUDITKIT_CAGE"] = "1"
            return words, None
        absent = [path for path in map(os.path.expanduser, _named(words, OUTPUTS)) if not os.path.lexists(path)]
        mounts = mounts_of(words, *(configs[path] for path in named if path in configs))
        code = sandbox.run([sys.executable, "-P", "-B", "-m", "auditkit", *words], mounts)
        for path in absent:
            if os.path.isfile(path) and not os.path.getsize(path):
                os.unlink(path)  # created to be mounted, and not written
        return words, code
    except AuditkitError as error:
        return words, complain_of(error, "--json" in words)


def mounts_of(words: list[str], config: Config | None = None) -> Mounts:
    """Name what a command line reads and writes, and what its `--config` file names; create the outputs."""
    from pathlib import Path

    from auditkit import sandbox
    from auditkit.errors import BadInputError

    if words[:2] == ["ticket", "fix"] and "--apply" in words:
        hint = "without --apply it prints a diff; apply that with: git apply"
        raise BadInputError("--cage does not write into a checkout, so --apply does not work with it", hint)
    if words[:1] == ["init"] and not _named(words, ("--output",)):
        raise BadInputError("--cage does not write into a checkout", "name a file elsewhere: --output FILE")
    here, read = os.getcwd(), []
    verb, words = words[:1], words[1 + (words[:1] in (["ticket"], ["probe"], ["sweep"])) :]
    if config:
        named = (("--tickets", config.tickets), ("--python", config.python), ("--checkout", config.checkout))
        probes = (("--probes-dir", path) for path in config.probes_dir)
        words = [*(f"{option}={value}" for option, value in (*named, *probes) if value), *words]
    pythons = _named(words, ("--python",))
    written = [os.path.abspath(os.path.expanduser(path)) for path in _named(words, OUTPUTS) if path != "-"]
    if not _named(words, ("--tickets",)) and os.path.isdir("tickets") and not os.path.islink("tickets"):
        written.append(os.path.abspath("tickets"))
    for word in words:
        path = os.path.expanduser(word.partition("=")[2] if word.startswith("--") else word)
        while path and not os.path.lexists(path):  # FOLDER@REVISION
            path = path.rpartition("@")[0]
        if path and os.path.abspath(path) not in written and word.removeprefix("--python=") not in pythons:
            read.append(os.path.abspath(path))
    has_folder = any(map(os.path.isdir, read))
    if not has_folder and verb == ["audit"] and not (_named(words, ("--target",)) or os.path.isfile("auditkit.yaml")):
        written.append(os.path.join(here, "auditkit-demo"))
    elif not has_folder and here not in written and not sandbox.is_private(here):
        read.append(here)  # the default of --checkout
    for number, path in enumerate(read):
        around = (str(each) for each in (Path(path), *Path(path).parents) if os.path.lexists(each / ".git"))
        if os.path.isdir(path):  # the repository around it
            read[number] = next((each for each in around if not sandbox.is_private(each)), path)
        if sandbox.is_private(path):
            raise BadInputError(f"--cage does not show {path} as a whole", "name a folder in it")
    write = [_output(path, read) for path in written if not path.startswith("/dev/")]
    device = _named(words, ("--device",))[-1:] or ["auto"]
    has_gpu = device[0] in ("auto", "cuda") and bool(sandbox.cards())
    return sandbox.Mounts([*read, *sandbox.interpreters(pythons, read)], write, gpu=has_gpu)


def _named(words: Sequence[str], options: Iterable[str]) -> list[str]:
    """The values of some options, however they are written; those behind `--` belong to another command."""
    words = list(itertools.takewhile(lambda word: word != "--", words))
    found = [after for option, after in itertools.pairwise(words) if option in options]
    return found + [word.partition("=")[2] for word in words if "=" in word and word.partition("=")[0] in options]


def _output(path: str, checkouts: Sequence[str]) -> str:
    """Where an output is written, created if it is not there, because only what exists can be mounted."""
    from auditkit.errors import BadInputError
    from auditkit.sandbox import is_private

    holds_one = any(f"{top}/".startswith(f"{path}/") for top in (*checkouts, os.path.dirname(os.getcwd())))
    if holds_one or os.path.lexists(f"{path}/.git") or os.path.realpath(path) != path or is_private(path):
        hint = "name a path without links that is no repository and holds no checkout"
        raise BadInputError(f"--cage does not write to {path}", hint)
    if not os.path.splitext(path)[1]:
        os.makedirs(path, exist_ok=True)
    elif not os.path.lexists(path):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666))
    return path
