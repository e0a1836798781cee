"""Interpreters that uv makes once, and clones of URLs: from folders, without a network."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from auditkit.errors import BadInputError
from auditkit.model.enums import DeviceChoice
from auditkit.sweep.driver import Sweep
from auditkit.sweep.jobs import EnvironmentSpec, ResultsFolder
from auditkit.sweep.preparation import (
    interpreter_for,
)
from tests.filing_helpers import put
from tests.sweep_helpers import commit_of, job, repository
from tests.verify_helpers import git

pytestmark = pytest.mark.process
WHEELS = (("torch", "2.9.0"), ("torch", "2.9.1"), ("torch", "2.10.0"), ("numpy", "2.0"), ("einops", "0.8"))


def wheel(folder: Path, name: str, version: str) -> None:
    """A package of one file that says its version."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"__version__ = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that takes the place of every index, for uv."""
    uv = Path(pytest.importorskip("uv", reason="pip install '.[sweep]'").find_uv_bin())
    monkeypatch.setenv("PATH", f"{uv.parent}:{os.environ['PATH']}")
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name, version in WHEELS:
        wheel(folder, name, version)
    put(tmp_path, "uv.toml", f'[pip]\nno-index = true\nfind-links = ["{folder}"]\n')
    monkeypatch.setenv("UV_CONFIG_FILE", str(tmp_path / "uv.toml"))
    return folder


def versions(python: str, *names: str) -> list[str]:
    code = f"import {', '.join(names)}; print({', '.join(f'{name}.__version__' for name in names)})"
    ended = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True)
    return ended.stdout.split()


def made(spec: EnvironmentSpec, tmp_path: Path) -> str:
    found = interpreter_for(spec, DeviceChoice.CPU, tmp_path / "cache")
    assert found is not None
    return found


def test_an_environment_is_made_once_with_what_the_plan_names(index: Path, tmp_path: Path) -> None:
    spec = EnvironmentSpec(torch="2.9", index="default", requirements=("einops",))
    with ThreadPoolExecutor(4) as threads:
        found = set(threads.map(lambda _: made(spec, tmp_path), range(4)))
    (python,) = found
    assert versions(python, "torch", "numpy", "einops") == ["2.9.1", "2.0", "0.8"]
    shutil.rmtree(index)  # nothing is installed again
    assert made(spec, tmp_path) == python
    # A half one, whose maker was killed, is made anew, which it cannot be by now.
    (Path(python).parent.parent / "auditkit-ready").unlink()
    with pytest.raises(BadInputError, match=r"^torch==2\.9"):
        made(spec, tmp_path)


def test_one_that_cannot_be_made_says_why_on_one_line(index: Path, tmp_path: Path) -> None:
    spec = EnvironmentSpec(torch="2.99", index="default", requirements=())
    with pytest.raises(BadInputError, match=r"^torch==2\.99\.\*: .*2\.99") as caught:
        made(spec, tmp_path)
    assert "\n" not in caught.value.message
    wheel(index, "torch", "2.99.0")
    assert versions(made(spec, tmp_path), "torch") == ["2.99.0"]


def test_a_url_is_cloned_once_and_fetched_where_a_commit_is_missing(tmp_path: Path) -> None:
    code = repository(tmp_path / "trainer", "v1", "v2")
    url, folder, cache = f"file://{code}", tmp_path / "swept", tmp_path / "cache"
    jobs = [job(code, f"trainer@{name}", commit_of(code, name), repository=url) for name in ("v1", "v2")]
    assert Sweep(jobs, folder, cache).run().done == 2
    (mirror,) = cache.glob("repositories/*.git")
    put(code, "train/version.py", "VERSION = 3\n")
    git(code, "commit", "-qam", "v3")
    newer = job(code, "trainer@v3", commit_of(code), repository=url)
    moved = job(code, "moved", commit_of(code), repository=f"file://{tmp_path}/nowhere/trainer")
    assert Sweep([newer, moved], folder, cache).run().done == 1
    assert list(cache.glob("repositories/*.git")) == [mirror]
    failure = ResultsFolder(folder).read(moved.key)
    assert failure is not None
    assert failure.reason.startswith(f"no checkout: git cannot clone file://{tmp_path}/nowhere/trainer: fatal: ")
