"""Interpreters with the torch that a job asks for: made once by uv in a cache folder, or one that is there."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from auditkit import sandbox
from auditkit.cache_folder import private_folder
from auditkit.errors import AuditkitError, BadInputError
from auditkit.files import write_file
from auditkit.model.enums import DeviceChoice
from auditkit.model.text import shortened
from auditkit.sweep.jobs import EnvironmentSpec
from auditkit.sweep.repositories import Code, locked_file

LONGEST_REASON = 400
"""Characters of a reason, which stands in a table."""
_BUILD_LIMIT_S = 3600.0
_READY = "auditkit-ready.json"
_USUAL_INDEX = "default"
# What torch's own wheels leave to their users, and what every probe of ours can do with.
_BESIDE_TORCH = ("numpy",)


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
class Wanted:
    """One environment to be made: Python's version, what is installed, and where torch comes from."""

    python: str
    packages: tuple[str, ...]
    files: tuple[tuple[str, str], ...]
    torch: str
    index: str
    for_gpu: bool

    @property
    def name(self) -> str:
        """`py3.12-torch2.9-cpu-` and a digest of all that is installed."""
        digest = hashlib.sha256(json.dumps(vars(self), sort_keys=True).encode()).hexdigest()[:12]
        device = "gpu" if self.for_gpu else "cpu"
        return f"py{self.python or 'any'}-torch{self.torch or 'any'}-{device}-{digest}"


def interpreter_for(spec: EnvironmentSpec, device: DeviceChoice, code: Code, cache: Path, failures: Path) -> str | None:
    """The interpreter that runs `code`; None where the checkout's own is meant.

    One process makes an environment, and the others wait for it. One that cannot be made is noted in the folder
    `failures`, so that a sweep tries it once. Raises EnvironmentFailedError with the reason.
    """
    if spec.interpreter or not (spec.torch or spec.python or spec.requirements):
        return spec.interpreter or None
    wanted = _wanted(spec, device, code)
    place = cache / "environments" / wanted.name
    note = failures / f"{wanted.name}.txt"
    with locked_file(place.with_name(f"{place.name}.lock")):
        if (place / _READY).is_file():
            return str(place / "bin" / "python")
        if note.is_file():
            raise EnvironmentFailedError(note.read_text(encoding="utf-8").strip())
        try:
            _build(wanted, place)
        except EnvironmentFailedError as error:
            write_file(note, f"{error.message}\n".encode("utf-8", "replace"))
            raise
    return str(place / "bin" / "python")


def _wanted(spec: EnvironmentSpec, device: DeviceChoice, code: Code) -> Wanted:
    named = spec.requirements or ()
    files, packages = [], list(_BESIDE_TORCH)
    for name in named:
        if not name.endswith(".txt"):
            packages.append(name)
        elif (text := code.text_of(name)) is not None:
            files.append((name, text))
        else:
            raise EnvironmentFailedError(f"the checkout has no {name}, which the plan names among its requirements")
    for_gpu = device is DeviceChoice.CUDA
    return Wanted(spec.python, tuple(packages), tuple(files), spec.torch, spec.index, for_gpu)


def torch_requirement(version: str) -> str:
    """`torch==2.9.*` for 2.9, `torch==2.9.1` for a whole version, `torch` for none."""
    if not version:
        return "torch"
    return f"torch=={version}" if version.count(".") >= 2 else f"torch=={version}.*"


def _build(wanted: Wanted, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    uv = _uv()
    python = str(place / "bin" / "python")
    if uv is not None:
        version = ("--python", wanted.python) if wanted.python else ()
        if sandbox.inside():  # the home folder is empty there, and does not last
            os.environ["UV_PYTHON_INSTALL_DIR"] = str(place.parent / "pythons")
        _run([uv, "venv", "--quiet", *version, str(place)], f"Python {wanted.python}".rstrip())
    else:
        _run([_found_python(wanted.python), "-m", "venv", str(place)], f"Python {wanted.python}".rstrip())
    torch = torch_requirement(wanted.torch)
    lists = []
    for number, (_, text) in enumerate(wanted.files):
        path = place / f"requirements-{number}.txt"
        path.write_text(_plain_requirements(text), encoding="utf-8")
        lists += ["-r", str(path)]
    installer = [uv, "pip", "install", "--quiet", "--python", python] if uv else [python, "-m", "pip", "install", "-q"]
    source = _source(wanted, uv is not None)
    try:
        _run([*installer, "--only-binary", ":all:", *source, torch, *wanted.packages, *lists], torch)
    except EnvironmentFailedError as error:
        hint = "; --torch-index default plans with the usual index" if source and not wanted.index else ""
        raise EnvironmentFailedError(f"{error.message}{hint}") from None
    (place / _READY).write_text(json.dumps(vars(wanted)), encoding="utf-8")


def _plain_requirements(text: str) -> str:
    """The lines of a file that name a package and its versions: no option, address or path, and not torch.

    The plan says which torch is installed. A checkout's file cannot name an index, or code to build.
    """
    lines = (line.partition("#")[0].strip().rstrip("\\").strip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if re.match(r"(?!torch(?![\w-]))[A-Za-z0-9][^@/\\]*$", line))


def _source(wanted: Wanted, is_uv: bool) -> Sequence[str]:
    """Where torch comes from: the wheels for processors are a tenth of those for graphics cards."""
    if wanted.index == _USUAL_INDEX:
        return ()
    if wanted.index:
        return ("--index", wanted.index) if is_uv else ("--extra-index-url", wanted.index)
    return ("--torch-backend", "auto" if wanted.for_gpu else "cpu") if is_uv else ()


def _uv() -> str | None:
    beside = Path(sysconfig.get_path("scripts")) / "uv"
    return shutil.which("uv") or (str(beside) if beside.is_file() else None)


def _found_python(version: str) -> str:
    if not version or version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    found = shutil.which(f"python{version}")
    if found is None:
        raise EnvironmentFailedError(
            f"there is no Python {version} here, and no uv, which would bring it: pip install uv"
        )
    return found


def _run(command: Sequence[str], what: str) -> None:
    try:
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_BUILD_LIMIT_S,
        )
    except OSError as error:
        raise EnvironmentFailedError(f"{what}: {command[0]} cannot be started: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise EnvironmentFailedError(f"{what}: not installed within {_BUILD_LIMIT_S:.0f} s") from None
    if ended.returncode != 0:
        raise EnvironmentFailedError(f"{what}: {installer_reason(ended.stderr)}")


def installer_reason(stderr: str) -> str:
    """Why an installer gave up, in one line: from its own word for it on, without its marks and its hints.

    Of uv's chain of causes what failed, and the last one; of a package that is built, the builder's last error.
    """
    lines = [line.lstrip(" ×╰─▶│|`->").rstrip() for line in stderr.splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(("hint:", "[notice]", "WARNING", "warning"))]
    first = next((number for number, line in enumerate(told) if re.match("(?i)error|no solution|failed", line)), 0)
    causes = [line.partition(":")[2].strip() for line in told if re.match("(?i)cause(d by)?:", line)]
    words = " ".join(told[first:]) or "the installer said nothing"
    if causes:
        # How often it tried, and for how long, is another sentence each time.
        failed = next((line for line in (told[first], *causes) if "Request failed after" not in line), causes[-1])
        errors = [line for line in told[first + 1 :] if line.lower().startswith("error:")]
        words = ": ".join(dict.fromkeys((failed, errors[-1] if errors else causes[-1])))
    words = re.sub(r"(?i) \(from versions: [^)]*\)|error: ", "", words)
    return shortened(words, LONGEST_REASON)
