"""The built wheel is what people install: it holds what it must, and runs from anywhere."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from auditkit import __version__
from tests.project_files import ROOT, Ended

pytestmark = pytest.mark.acceptance

PROBES = sorted(path.stem for path in (ROOT / "probes").glob("*.py") if not path.name.startswith("_"))


def run(*command: object, cwd: Path = Path("/")) -> Ended:
    """A command without our checkout on the path, from a folder that is not ours."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def build(kind: str, folder: Path) -> Path:
    """The one file that `python -m build` makes, without a network."""
    ended = run(sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "--outdir", folder, ROOT)
    assert ended.code == 0, ended.stdout + ended.stderr
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a clean environment with the wheel in it.

    The dependencies come by a .pth file from the running environment: nothing is downloaded. An editable
    installation of our checkout there is not followed, since nested .pth files are not read.
    """
    home = tmp_path_factory.mktemp("clean")
    venv.create(home, with_pip=False, symlinks=True)
    interpreter = home / "bin" / "python"
    site = Path(run(interpreter, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip())
    here = sysconfig.get_path("purelib")
    command = ["pip", "--python", interpreter, "install", "-q", "--no-deps", "--no-index", "--no-cache-dir", wheel]
    installed = run(sys.executable, "-m", *command)
    assert installed.code == 0, installed.stdout + installed.stderr
    (site / "dependencies.pth").write_text(f"{here}\n", encoding="utf-8")
    return interpreter


def test_the_wheel_holds_templates_probes_and_specimens(wheel: Path) -> None:
    """What the tool reads at run time lies in the wheel exactly as in the checkout, and nothing else does."""
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("templates", "probes"):
        ours = {
            f"auditkit/_bundled/{path.relative_to(ROOT).as_posix()}"
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert {name for name in names if name.startswith(f"auditkit/_bundled/{folder}/")} == ours
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "auditkit").rglob("*.py")}
    assert names >= modules
    assert {name.split("/")[0] for name in names} == {"auditkit", f"auditkit-{__version__}.dist-info"}
    assert f"auditkit/_bundled/probes/{PROBES[0]}.py" in names
    assert {"auditkit/py.typed", f"auditkit-{__version__}.dist-info/licenses/LICENSE"} <= names
    assert "auditkit/_bundled/probes/specimens/gradient_monitoring/auditkit.yaml" in names


def test_the_source_distribution_builds(tmp_path: Path) -> None:
    """It holds the tests and what they read, so that a packager can run them."""
    with tarfile.open(build("sdist", tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "pyproject.toml",
        "auditkit/__init__.py",
        "tests/test_wheel.py",
        "docs/schema/run.schema.json",
        "LICENSE",
    } <= names
    assert not any("__pycache__" in name for name in names)


def test_the_installed_package_is_the_one_that_runs(python: Path) -> None:
    """From `/`: the wheel's own modules, not those of the checkout that built it."""
    ended = run(python, "-c", "import auditkit; print(auditkit.__file__)")
    assert (ended.code, ended.stderr) == (0, "")
    assert Path(ended.stdout.strip()).is_relative_to(python.parent.parent)


def test_the_command_is_installed(python: Path) -> None:
    version = f"auditkit {__version__}\n"
    assert run(python.parent / "auditkit", "--version") == Ended(0, version, "")
    listed = run(python, "-m", "auditkit", "probe", "list")
    assert (listed.code, listed.stderr) == (0, "")
    assert [line.split()[1] for line in listed.stdout.splitlines()] == PROBES


def test_the_bundled_audit_runs_from_the_wheel(python: Path, tmp_path: Path) -> None:
    """In an empty folder it finds a defect of the shipped specimen and files its ticket, with a fix that was run.

    One target of eleven, which take 4 s each: test_readme.py runs the whole audit.
    """
    target = ["--target", "gradmon.defective:per_layer_norms"]
    command = [python.parent / "auditkit", "audit", "--probe", "syncs_grow_with_tensors", *target]
    ended = run(*command, cwd=tmp_path)
    call = target[1]
    told = f"asking {call} (1 of 1)\nP2  syncs_grow_with_tensors  {call}\n"
    fixed = "note: fixes that were run: for 1 of 1 new ticket, "
    assert (ended.code, ended.stderr.partition(fixed)[0], fixed in ended.stderr) == (1, told, True)
    assert os.listdir(tmp_path) == ["auditkit-demo"]
    filed = [path.name for path in (tmp_path / "auditkit-demo" / "tickets").rglob("B*.md")]
    assert filed == ["B1-PT-01.md"]
    assert "in per_layer_norms" in ended.stdout
    assert "no line" not in ended.stdout, "a finding of an installed specimen has its place, too"


def test_a_probe_file_of_the_wheel_runs_alone(python: Path, tmp_path: Path) -> None:
    """`python .../_bundled/probes/PROBE.py --checkout DIR --target M:F` is `auditkit probe run`."""
    site = Path(run(python, "-c", "import auditkit; print(auditkit.__path__[0])").stdout.strip())
    probe = site / "_bundled" / "probes" / "syncs_grow_with_tensors.py"
    specimen = site / "_bundled" / "probes" / "specimens" / "gradient_monitoring"
    command = [python, probe, "--checkout", specimen, "--target", "gradmon.defective:per_layer_norms"]
    ended = run(*command, "--device", "cpu", cwd=tmp_path)
    assert (ended.code, ended.stderr) == (1, "")
    assert "syncs_grow_with_tensors" in ended.stdout
    assert os.listdir(tmp_path) == []
