"""Interpreters with the torch of a job: uv makes each once in a cache folder."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from auditkit import sandbox
from auditkit.cache_folder import private_folder
from auditkit.errors import AuditkitError, BadInputError
from auditkit.model.enums import DeviceChoice
from auditkit.model.text import shortened
from auditkit.sweep.jobs import EnvironmentSpec
from auditkit.sweep.repositories import locked_file, text_of

LONGEST_REASON = 400
"""Characters of a reason, which is a cell of a table."""
_BUILD_LIMIT_S = 3600.0
_READY = "auditkit-ready.json"
_USUAL_INDEX = "default"
_BESIDE_TORCH = ("numpy",)
"""torch's own wheels leave it to their users."""


def cache_folder() -> Path:
    """Return the user's own folder for clones and environments.

    Raises BadInputError if no folder is the user's alone: auditkit runs what lies there.
    """
    place = private_folder("sweep")
    if not place:
        raise BadInputError("no cache folder is yours alone", "chmod go-w it, or name another: --cache DIR")
    return Path(place)


class EnvironmentFailedError(AuditkitError):
    """An environment cannot be made; the message says why."""


@dataclass(frozen=True)
class _Wanted:
    """One environment: Python's version, what is installed, and where torch comes from."""

    python: str
    packages: tuple[str, ...]
    files: tuple[str, ...]
    torch: str
    index: str
    for_gpu: bool

    @property
    def name(self) -> str:
        """`py3.12-torch2.9-cpu-` and a digest of all that is installed."""
        digest = hashlib.sha256(json.dumps(vars(self), sort_keys=True).encode()).hexdigest()[:12]
        device = "gpu" if self.for_gpu else "cpu"
        return f"py{self.python or 'any'}-torch{self.torch or 'any'}-{device}-{digest}"


def interpreter_for(
    spec: EnvironmentSpec, device: DeviceChoice, folder: Path, revision: str, cache: Path
) -> str | None:
    """Return the interpreter that runs the code in `folder`; None for the checkout's own.

    One process makes an environment, and the others wait for it. Raises EnvironmentFailedError with the reason.
    """
    if spec.interpreter or not (spec.torch or spec.python or spec.requirements):
        return spec.interpreter or None
    files, packages = [], list(_BESIDE_TORCH)
    for name in spec.requirements:
        if not name.endswith(".txt"):
            packages.append(name)
        elif (text := text_of(folder, revision, name)) is not None:
            files.append(_plain_requirements(text))
        else:
            raise EnvironmentFailedError(f"the checkout has no {name}, which the plan names among its requirements")
    for_gpu = device is DeviceChoice.CUDA
    wanted = _Wanted(spec.python, tuple(packages), tuple(files), spec.torch, spec.index, for_gpu)
    place = cache / "environments" / wanted.name
    with locked_file(place.with_name(f"{place.name}.lock")):
        if not (place / _READY).is_file():
            _build(wanted, place)
    return str(place / "bin" / "python")


def torch_requirement(version: str) -> str:
    """Return `torch==2.9.*` for 2.9, `torch==2.9.1` for a whole version, `torch` for none."""
    if not version:
        return "torch"
    return f"torch=={version}" if version.count(".") >= 2 else f"torch=={version}.*"


def _build(wanted: _Wanted, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    uv, python = _uv(), str(place / "bin" / "python")
    if sandbox.inside():  # the home folder is empty there, and does not last
        os.environ["UV_PYTHON_INSTALL_DIR"] = str(place.parent / "pythons")
    version = ("--python", wanted.python) if wanted.python else ()
    _run([uv, "venv", "--quiet", *version, str(place)], f"Python {wanted.python}".rstrip())
    # The wheels for processors are a tenth of those for GPUs.
    source = ["--torch-backend", "auto" if wanted.for_gpu else "cpu"]
    if wanted.index:
        source = [] if wanted.index == _USUAL_INDEX else ["--index", wanted.index]
    install = [uv, "pip", "install", "--quiet", "--python", python]
    lists = []
    for number, text in enumerate(wanted.files):
        path = place / f"requirements-{number}.txt"
        path.write_text(text, encoding="utf-8")
        lists += ["-r", str(path)]
    torch = torch_requirement(wanted.torch)
    _run([*install, "--only-binary", ":all:", *source, torch, *wanted.packages, *lists], torch)
    (place / _READY).write_text(json.dumps(vars(wanted)), encoding="utf-8")


def _plain_requirements(text: str) -> str:
    """Return the lines of a file that name a package and its versions: no option, address or path, and not torch.

    The plan says which torch is installed. A checkout's file cannot name an index, or code to build.
    """
    lines = (line.partition("#")[0].strip().rstrip("\\").strip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if re.match(r"(?!torch(?![\w-]))[A-Za-z0-9][^@/\\]*$", line))


def _uv() -> str:
    beside = Path(sysconfig.get_path("scripts")) / "uv"
    found = shutil.which("uv") or (str(beside) if beside.is_file() else None)
    if found is None:
        raise EnvironmentFailedError("uv makes environments, and it is not installed here: pip install uv")
    return found


def _run(command: Sequence[str], what: str) -> None:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                              timeout=_BUILD_LIMIT_S)  # fmt: skip
    except OSError as error:
        raise EnvironmentFailedError(f"{what}: {command[0]} cannot be started: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise EnvironmentFailedError(f"{what}: not installed within {_BUILD_LIMIT_S:.0f} s") from None
    if done.returncode != 0:
        raise EnvironmentFailedError(f"{what}: {installer_reason(done.stderr)}")


def installer_reason(stderr: str) -> str:
    """Return why an installer gave up, on one line: from its first error on, without its marks and hints."""
    lines = [line.lstrip(" ×╰─▶│|`->").rstrip() for line in stderr.splitlines() if line.strip()]
    lines = [line for line in lines if not re.match("hint:|.notice|(?i:warning)", line)]
    first = next((number for number, line in enumerate(lines) if re.match("(?i)error|no solution|failed", line)), 0)
    # How often it tried, and for how long, is another sentence each time.
    words = " ".join(line for line in lines[first:] if "Request failed after" not in line)
    words = re.sub(r"(?i) \(from versions: [^)]*\)|\b(error|cause): ", "", words)
    return shortened(words or "the installer said nothing", LONGEST_REASON)
