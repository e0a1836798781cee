"""CI runs what the README tells people to run, with versions that fit what we ask for."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.project_files import ROOT

pytestmark = pytest.mark.process

RUN = ROOT / ".ci" / "run"


def run(script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(script), *arguments], capture_output=True, text=True, check=False, timeout=60)


def test_ci_runs_the_readmes_line() -> None:
    """Both lines are in the README under their heading; the first installs, and runs the tests."""
    assert os.access(RUN, os.X_OK)
    done = run(RUN, "--show")
    assert (done.returncode, done.stderr) == (0, "")
    line, acceptance = done.stdout.splitlines()
    section = (ROOT / "README.md").read_text("utf-8").partition("\n## Run the tests\n")[2]
    assert section.lstrip().startswith(f"<!-- test-line -->\n```sh\n{line}\n```\n")
    assert f"\n<!-- acceptance-line -->\n```sh\n{acceptance}\n```\n" in section
    assert "-c .ci/constraints.txt -e '.[dev]'" in line
    assert "-m pytest" in line
    assert '-m "acceptance ' in acceptance


def pins() -> dict[str, str]:
    lines = (ROOT / ".ci" / "constraints.txt").read_text("utf-8").splitlines()
    found = (re.fullmatch(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.!+_-]+)", line) for line in lines if line[0] != "#")
    return {canonicalize_name(match[1]): match[2] for match in found if match is not None}


def test_every_direct_dependency_is_pinned_to_a_version_that_fits() -> None:
    """.ci/constraints.txt names one version of each, and pyproject.toml allows it."""
    text = (ROOT / ".ci" / "constraints.txt").read_text("utf-8")
    assert len(pins()) == len([line for line in text.splitlines() if not line.startswith("#")])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [name for extra in project["optional-dependencies"].values() for name in extra]
    others = [name for name in [*project["dependencies"], *extras] if not name.startswith(f"{project['name']}[")]
    for requirement in map(Requirement, others):
        pin = pins()[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(pin), f"{requirement} and {pin}"
