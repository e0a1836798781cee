"""Prepare a job: find or clone its repository, and find or make its interpreter, each once in a cache folder."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from auditkit import sandbox
from auditkit.cache_folder import private_folder
from auditkit.errors import BadInputError
from auditkit.git_process import fetch_with_git
from auditkit.model.enums import DeviceChoice
from auditkit.probing.checkout import git
from auditkit.sweep.jobs import EnvironmentSpec
from auditkit.tickets.store import locked

URL = re.compile(r"((?:[a-z][a-z0-9+.-]*://[^/\s]*|[\w.-]+@[\w.-]+:)\S+?)(?:@([^@\s]+))?")
"""`https://host/owner/name`, `git@host:owner/name`, either with `@REVISION`."""
_MADE_WITHIN_S = 3600.0
_READY = "auditkit-ready"


def cache_folder() -> Path:
    """Return the user's own folder for clones and environments. Raises BadInputError if others can write in it."""
    place = private_folder("sweep")
    if not place:
        raise BadInputError("other users can write in the cache folder", "chmod go-w it, or name another: --cache DIR")
    return Path(place)


def is_url(repository: str) -> bool:
    """Whether git has to fetch it."""
    return URL.fullmatch(repository) is not None


def short_name(repository: str) -> str:
    """Return `nanoGPT` of `https://host/karpathy/nanoGPT.git` and of a folder."""
    return re.split(r"[/:]", repository.rstrip("/"))[-1].removesuffix(".git") or "checkout"


def folder_of(repository: str, revision: str, cache: Path) -> Path:
    """Return the folder of a repository, or its mirror in `cache`. Raises BadInputError if there is none."""
    place = _mirror(repository, revision, cache) if is_url(repository) else Path(repository)
    if not place.is_dir():
        raise BadInputError(f"no such directory: {place}", "a checkout is a directory of this machine, or a URL")
    return place


def resolve(repository: str, revision: str) -> str:
    """Return the full commit of `revision` ("": the newest); "" outside git. Raises BadInputError if there is none."""
    if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", revision):
        return revision
    if not is_url(repository):
        found = git.find_repository(Path(repository))
        if found is None and revision:
            raise BadInputError(f"{repository} is not in a git repository, so it has no revision {revision!r}")
        if found is None:
            return ""
        is_newest = not revision and found.has_work_tree
        return git.current_revision(found) if is_newest else git.resolve_revision(found, revision or "HEAD")
    name = revision or "HEAD"
    lines = _fetched("read", repository, Path.cwd(), "ls-remote", "--", repository, name, f"{name}^{{}}").splitlines()
    commits = {ref: commit for commit, _, ref in (line.partition("\t") for line in lines)}
    best = [f"refs/heads/{name}", f"refs/tags/{name}^{{}}", f"refs/tags/{name}", name]
    commit = next((commits[ref] for ref in best if ref in commits), "")
    if not commit:
        raise BadInputError(f"{repository} has no revision {revision!r}", "name a branch, a tag, or a whole commit")
    return commit


def _mirror(url: str, revision: str, cache: Path) -> Path:
    """Return a bare clone of the URL that has `revision`; one process at a time makes or updates it."""
    name = f"{short_name(url)}-{hashlib.sha256(url.encode()).hexdigest()[:12]}.git"
    place = cache / "repositories" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    with locked(cache / "locks" / name, _MADE_WITHIN_S):
        if not place.is_dir():
            half = place.with_suffix(".half")
            shutil.rmtree(half, ignore_errors=True)
            _fetched("clone", url, place.parent, "clone", "--quiet", "--mirror", "--", url, str(half))
            half.rename(place)
        # A commit that no branch holds any more: the server may still send it by its name.
        for wanted in (("--prune", "origin"), ("origin", revision)):
            if git.run_git(place, "cat-file", "-e", f"{revision}^{{commit}}").returncode != 0:
                fetch_with_git(place, "fetch", "--quiet", *wanted)
    return place


def _fetched(verb: str, url: str, folder: Path, *arguments: str) -> str:
    """Return what a command of git's prints, which may use the network. Raises BadInputError with its reason."""
    done = fetch_with_git(folder, *arguments)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["git gave no reason"]
        why = next((line for line in lines if line.startswith("fatal:")), lines[-1])
        raise BadInputError(f"git cannot {verb} {url}: {why}", "check the URL and the network")
    return done.stdout


def interpreter_for(spec: EnvironmentSpec, device: DeviceChoice, cache: Path) -> str | None:
    """Return the interpreter that runs the code; None for the checkout's own.

    One process makes an environment, and the others wait for it. Raises BadInputError with the reason if it cannot.
    """
    if spec.interpreter or not (spec.torch or spec.python):
        return spec.interpreter or None
    torch = f"torch=={spec.torch}{'' if spec.torch.count('.') >= 2 else '.*'}" if spec.torch else "torch"
    lines = [torch, "numpy", *spec.requirements]  # torch's own wheels do not install numpy
    kind = "gpu" if device is DeviceChoice.CUDA else "cpu"
    digest = hashlib.sha256(json.dumps([spec.python, spec.index, kind, lines]).encode()).hexdigest()[:12]
    name = f"py{spec.python or 'any'}-torch{spec.torch or 'any'}-{kind}-{digest}"
    place = cache / "environments" / name
    with locked(cache / "locks" / name, _MADE_WITHIN_S):
        if not (place / _READY).is_file():
            _build(spec, kind, lines, place)
    return str(place / "bin" / "python")


def _build(spec: EnvironmentSpec, kind: str, lines: Sequence[str], place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    uv = shutil.which("uv") or shutil.which(os.path.join(sysconfig.get_path("scripts"), "uv"))
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
    """Run the installer. Raises BadInputError with its reason, on one line without its marks and hints."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                              timeout=_MADE_WITHIN_S)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInputError(f"{what}: {error}") from None
    if done.returncode != 0:
        lines = (line.lstrip(" ×╰─▶│|`->").rstrip() for line in done.stderr.splitlines())
        # The number of its attempts and their seconds differ each time.
        words = " ".join(line for line in lines if line and not re.match("hint:|warning|.*Request failed after", line))
        why = re.sub(r"\b(error|cause): ", "", words) or "the installer gave no reason"
        raise BadInputError(f"{what}: {why}")
