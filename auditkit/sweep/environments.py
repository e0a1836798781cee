"""Interpreters with the torch of a job: uv makes each once in a cache folder."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

from auditkit import sandbox
from auditkit.cache_folder import private_folder
from auditkit.errors import BadInputError
from auditkit.model.enums import DeviceChoice
from auditkit.model.text import shortened
from auditkit.sweep.jobs import EnvironmentSpec
from auditkit.sweep.repositories import text_of
from auditkit.tickets.store import locked

LONGEST_REASON = 400
"""Characters of a reason, which is a cell of a table."""
_BUILD_LIMIT_S = 3600.0
_READY = "auditkit-ready"
_BESIDE_TORCH = "numpy"
"""torch's own wheels do not install it."""


def cache_folder() -> Path:
    """Return the user's own folder for clones and environments.

    Raises BadInputError if other users can write in each such folder: auditkit runs what is in it.
    """
    place = private_folder("sweep")
    if not place:
        raise BadInputError("other users can write in the cache folder", "chmod go-w it, or name another: --cache DIR")
    return Path(place)


def interpreter_for(
    spec: EnvironmentSpec, device: DeviceChoice, folder: Path, revision: str, cache: Path
) -> str | None:
    """Return the interpreter that runs the code in `folder`; None for the checkout's own.

    One process makes an environment, and the others wait for it. Raises BadInputError with the reason if it cannot.
    """
    if spec.interpreter or not (spec.torch or spec.python or spec.requirements):
        return spec.interpreter or None
    torch = f"torch=={spec.torch}{'' if spec.torch.count('.') >= 2 else '.*'}" if spec.torch else "torch"
    lines = [torch, _BESIDE_TORCH, *_requirements(spec, folder, revision)]
    kind = "gpu" if device is DeviceChoice.CUDA else "cpu"
    digest = hashlib.sha256(json.dumps([spec.python, spec.index, kind, lines]).encode()).hexdigest()[:12]
    name = f"py{spec.python or 'any'}-torch{spec.torch or 'any'}-{kind}-{digest}"
    place = cache / "environments" / name
    with locked(cache / "locks" / name, _BUILD_LIMIT_S):
        if not (place / _READY).is_file():
            _build(spec, kind, lines, place)
    return str(place / "bin" / "python")


def _requirements(spec: EnvironmentSpec, folder: Path, revision: str) -> Iterator[str]:
    """Yield the packages of a plan. Of a checkout's file they are the lines that name a package and its versions.

    Such a file names no index, and no code to build; the plan says which torch is installed.
    """
    for name in spec.requirements:
        if not name.endswith(".txt"):
            yield name
            continue
        text = text_of(folder, revision, name)
        if text is None:
            raise BadInputError(f"the checkout has no {name}, which the plan names among its requirements")
        lines = (line.partition("#")[0].strip().rstrip("\\").strip() for line in text.splitlines())
        yield from (line for line in lines if re.match(r"(?!torch(?![\w-]))[A-Za-z0-9][^@/\\]*$", line))


def _build(spec: EnvironmentSpec, kind: str, lines: Sequence[str], place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = os.path.join(sysconfig.get_path("scripts"), "uv")
    uv = shutil.which("uv") or shutil.which(beside)
    if uv is None:
        raise BadInputError("uv makes environments, and it is not installed here: pip install uv")
    if sandbox.inside():  # the home folder is empty there, and does not last
        os.environ["UV_PYTHON_INSTALL_DIR"] = str(place.parent / "pythons")
    version = ("--python", spec.python) if spec.python else ()
    _run([uv, "venv", "--quiet", *version, str(place)], f"Python {spec.python}".rstrip())
    # The wheels for processors are a tenth of those for GPUs.
    source = ["--torch-backend", "auto" if kind == "gpu" else "cpu"]
    if spec.index:
        source = [] if spec.index == "default" else ["--index", spec.index]
    wanted = place / "auditkit-requirements.txt"
    wanted.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    install = [uv, "pip", "install", "--quiet", "--python", str(place / "bin" / "python"), "--only-binary", ":all:"]
    _run([*install, *source, "-r", str(wanted)], lines[0])
    (place / _READY).touch()


def _run(command: Sequence[str], what: str) -> None:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                              timeout=_BUILD_LIMIT_S)  # fmt: skip
    except OSError as error:
        raise BadInputError(f"{what}: {command[0]} cannot be started: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise BadInputError(f"{what}: not installed within {_BUILD_LIMIT_S:.0f} s") from None
    if done.returncode != 0:
        raise BadInputError(f"{what}: {installer_reason(done.stderr)}")


def installer_reason(stderr: str) -> str:
    """Return why an installer failed, on one line: from its first error on, without its marks and hints."""
    lines = [line.lstrip(" ×╰─▶│|`->").rstrip() for line in stderr.splitlines() if line.strip()]
    lines = [line for line in lines if not re.match("hint:|.notice|(?i:warning)", line)]
    first = next((number for number, line in enumerate(lines) if re.match("(?i)error|no solution|failed", line)), 0)
    # The number of its attempts and their seconds differ each time.
    words = " ".join(line for line in lines[first:] if "Request failed after" not in line)
    words = re.sub(r"(?i) \(from versions: [^)]*\)|\b(error|cause): ", "", words)
    return shortened(words or "the installer gave no reason", LONGEST_REASON)
