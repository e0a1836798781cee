"""Start git so that a repository cannot start programs: every git command of auditkit goes through here.

What a repository says of hooks, filters, monitors, signatures and remotes is overruled; see docs/design/checkouts.md.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import resource
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path

from auditkit.errors import BadInputError
from auditkit.processes import start_or_retry

# Of git's variables those that say where the user's own configuration lies; inside a hook the rest leads elsewhere.
_KEPT_VARIABLES = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_CEILING_DIRECTORIES")

_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",  # `git status` would otherwise rewrite the index
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "",  # nothing is fetched: before git 2.44 a partial clone fetches in spite of the next line
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",  # a commit is what its hash says
    "GIT_GRAFT_FILE": os.devnull,
    "LC_ALL": "C",
}

_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",  # may name a program
    "core.untrackedCache": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "log.showSignature": "false",  # by gpg.program
    "submodule.recurse": "false",
    "status.submoduleSummary": "false",
    "credential.helper": "",
    "color.ui": "false",
}

# A diff may run a program that the repository configures, and a command on the work tree may read the submodules,
# which have a configuration of their own.
_OPTIONS = {
    "diff": ("--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty"),
    "diff-tree": ("--no-ext-diff", "--no-textconv"),
    "log": ("--no-ext-diff", "--no-textconv"),
    "show": ("--no-ext-diff", "--no-textconv"),
    "status": ("--ignore-submodules=dirty",),
}

# These read objects, the index and names, and never pass a file through a filter.
_WITHOUT_FILES = frozenset((
    "cat-file", "config", "diff-tree", "for-each-ref", "init", "log", "ls-files", "ls-tree", "merge-base",
    "merge-file", "read-tree", "rev-list", "rev-parse", "show", "symbolic-ref",
))  # fmt: skip
_FILTER = re.compile(r"filter\..*\.(clean|smudge|process|required)", re.DOTALL)

_TIME_LIMIT_S = 300.0
"""A pipe in the place of a .gitignore has git wait for ever."""

_LARGEST_FILE_BYTES = 1 << 30
"""Ten gigabytes of zeros are ten megabytes in git, and a disk that is full where they are checked out."""


def run_git(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run git in `directory`; bytes that are no UTF-8 are surrogates. Raises BadInputError if it does not end in time.

    No hook, filter, monitor, pager or program that shows differences is started, nothing is fetched, no
    prompt appears, and git enters no submodule.
    """
    leading = list(itertools.takewhile(lambda word: word.startswith("-"), arguments))
    command, *rest = arguments[len(leading) :]
    settings = dict(_SETTINGS) if command in _WITHOUT_FILES else _SETTINGS | _no_filters(directory, leading)
    process = start_or_retry(
        lambda: subprocess.Popen(
            ["git", "--no-pager", *leading, command, *_OPTIONS.get(command, ()), *rest],
            cwd=directory,
            env=_environment(settings),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
        )
    )
    with contextlib.suppress(AttributeError, ProcessLookupError):  # there is none but on Linux, or it has ended
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (_LARGEST_FILE_BYTES, _LARGEST_FILE_BYTES))
    try:
        written = process.communicate(timeout=_TIME_LIMIT_S)
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        text = f"git {' '.join(arguments)[:60]} did not finish in {directory} within {_TIME_LIMIT_S:g} s"
        raise BadInputError(text, "is a .gitignore or .gitattributes there a pipe or a device?") from None
    out, err = (text.decode("utf-8", "surrogateescape") for text in written)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def fetch_with_git(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`clone`, `fetch` or `ls-remote` of an address that the user named, by the user's own credentials and ssh.

    Nothing is checked out by it; `directory` holds no repository but one that this function made.
    """
    settings = {key: value for key, value in _SETTINGS.items() if key != "credential.helper"}
    return start_or_retry(
        lambda: subprocess.run(
            ["git", "--no-pager", *arguments],
            cwd=directory,
            env=_environment(settings) | {"GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            check=False,
        )
    )


def _no_filters(directory: Path, leading: Iterable[str]) -> dict[str, str]:
    """What takes away every filter that is configured, by whomever and wherever: of the checkout, and the user's own.

    There is no setting for all of them. Reading the configuration starts nothing.
    """
    named = run_git(directory, *leading, "config", "--list", "--name-only", "-z").stdout.split("\0")
    return {name: "false" if name.endswith(".required") else "" for name in named if _FILTER.fullmatch(name)}


def _environment(settings: dict[str, str]) -> dict[str, str]:
    """The user's without git's variables; settings come in variables, as `-c` takes a `=` in a name for its end."""
    own = {key: value for key, value in os.environ.items() if not key.startswith("GIT_") or key in _KEPT_VARIABLES}
    numbered = dict(enumerate(settings.items()))
    keys = {f"GIT_CONFIG_KEY_{number}": key for number, (key, _) in numbered.items()}
    values = {f"GIT_CONFIG_VALUE_{number}": value for number, (_, value) in numbered.items()}
    return own | _ENVIRONMENT | keys | values | {"GIT_CONFIG_COUNT": str(len(numbered))}
