"""The built wheel is what people install: it holds what it must, and runs from anywhere."""

from __future__ import annotations

import email
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from auditkit import __version__
from tests.filing_helpers import put, ticket_text
from tests.project_files import ROOT, Ended

pytestmark = pytest.mark.acceptance

PROBES = sorted(path.stem for path in (ROOT / "probes").glob("*.py") if path.stem != "forms" and path.name[0] != "_")


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
    interpreter, site = with_wheel(tmp_path_factory.mktemp("clean"), wheel)
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    return interpreter


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with what the wheel asks for without an extra, and nothing else: there is no torch in it."""
    interpreter, site = with_wheel(tmp_path_factory.mktemp("bare"), wheel)
    for name in required_by(wheel):
        for top in {path.parts[0] for path in distribution(name).files or () if path.parts[0] != ".."}:
            (site / top).symlink_to(distribution(name).locate_file(top))
    return interpreter


def with_wheel(home: Path, wheel: Path) -> tuple[Path, Path]:
    """A new environment's interpreter and its site-packages, in which the wheel alone is installed."""
    venv.create(home, with_pip=False, symlinks=True)
    interpreter = home / "bin" / "python"
    command = ["pip", "--python", interpreter, "install", "-q", "--no-deps", "--no-index", "--no-cache-dir", wheel]
    installed = run(sys.executable, "-m", *command)
    assert installed.code == 0, installed.stdout + installed.stderr
    return interpreter, next(home.glob("lib/python*/site-packages"))


def required_by(wheel: Path) -> set[str]:
    """The distributions that installing the wheel without an extra brings."""
    with zipfile.ZipFile(wheel) as archive:
        head = archive.read(f"torch_auditkit-{__version__}.dist-info/METADATA").decode()
    waiting = email.message_from_string(head).get_all("Requires-Dist") or []
    found: set[str] = set()
    while waiting:
        wanted = Requirement(waiting.pop())
        if (wanted.marker is None or wanted.marker.evaluate({"extra": ""})) and wanted.name not in found:
            found.add(wanted.name)
            waiting += distribution(wanted.name).requires or []
    return found


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
    assert {name.split("/")[0] for name in names} == {"auditkit", f"torch_auditkit-{__version__}.dist-info"}
    assert f"auditkit/_bundled/probes/{PROBES[0]}.py" in names
    assert {"auditkit/py.typed", f"torch_auditkit-{__version__}.dist-info/licenses/LICENSE"} <= names
    assert "auditkit/_bundled/probes/specimens/gradient_monitoring/auditkit.yaml" in names


def test_the_source_distribution_builds(tmp_path: Path) -> None:
    """It holds the tests and what they read, so that a packager can run them."""
    with tarfile.open(build("sdist", tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "pyproject.toml",
        "auditkit/__init__.py",
        "tests/test_wheel.py",
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
    listed = run(python, "-P", "-m", "auditkit", "probe", "list")
    assert (listed.code, listed.stderr) == (0, "")
    assert [line.split()[1] for line in listed.stdout.splitlines()] == PROBES


def test_the_bundled_audit_runs_from_the_wheel(python: Path, tmp_path: Path) -> None:
    """In an empty folder it finds a defect of the shipped specimen and files its ticket.

    One target of eleven, which take 4 s each, and no fix: test_readme.py runs the whole audit.
    """
    target = ["--target", "gradmon.defective:per_layer_norms"]
    command = [python.parent / "auditkit", "audit", "--probe", "syncs_grow_with_tensors", "--fix-time=0", *target]
    ended = run(*command, cwd=tmp_path)
    call = target[1]
    assert (ended.code, ended.stderr) == (1, f"checking {call} (1 of 1)\n")
    assert os.listdir(tmp_path) == ["auditkit-demo"]
    filed = [path.name for path in (tmp_path / "auditkit-demo" / "tickets").rglob("B*.md")]
    assert filed == ["B1-PT-01.md"]
    assert "in per_layer_norms" in ended.stdout
    assert "no line" not in ended.stdout, "a finding of an installed specimen has its place, too"


READING = (
    "list",
    "next",
    "show B7-PT-01",
    "lint",
    "edit B7-PT-01 labels+=amp",
    "new --title T --severity P2 --batch 9 --agent pytorch",
)


def test_tickets_reports_and_lint_need_no_torch(wheel: Path, bare: Path, tmp_path: Path) -> None:
    """What installs without an extra brings them all; neither torch nor NumPy is there to be imported."""
    assert required_by(wheel).isdisjoint({"torch", "numpy"})
    assert run(bare, "-c", "import torch").stderr.endswith("No module named 'torch'\n")
    tickets = put(tmp_path / "tickets", "B7-PT-01.md", ticket_text()).parent
    for words in READING:
        ended = run(bare, "-P", "-m", "auditkit", "ticket", *words.split(), "--tickets", tickets, cwd=tmp_path)
        assert (ended.code in (0, 1), bool(ended.stdout), "Traceback" in ended.stderr) == (True, True, False), ended
    ended = run(bare, "-P", "-m", "auditkit", "report", "--tickets", tickets)
    assert (ended.code, ended.stdout[:2], ended.stderr) == (0, "# ", "")


def test_an_audit_without_torch_says_how_to_install_it_or_asks_another_interpreter(bare: Path, tmp_path: Path) -> None:
    (tmp_path / "stats.py").write_text(
        "def grad_norm(parameters):\n    return sum(p.grad.norm().item() for p in parameters)\n"
    )
    install = f"{bare} -m pip install torch"
    target = ["--target", "stats:grad_norm", "--contract", "grad_norm", "--probe", "syncs_grow_with_tensors"]
    command = [bare, "-P", "-m", "auditkit", "audit", tmp_path, "--fix-time=0", "--no-tickets", *target]
    ended = run(*command)
    assert (ended.code, ended.stderr.count(install)) == (5, 1), ended
    assert run(*command, "--python", sys.executable).code == 1
    guard = run(bare, "-c", "from auditkit.testing import check; check('json:dumps').syncs()")
    assert ("GuardUnavailable: " in guard.stderr, install in guard.stderr) == (True, True)
    doctor = run(bare, "-P", "-m", "auditkit", "doctor", cwd=tmp_path)
    assert (doctor.code, doctor.stdout, install in doctor.stderr) == (5, "", True)
    assert "tickets, reports, lint and the probes that read source need none" in doctor.stderr


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


GUARDED = """
import pytest


def grad_norm(parameters):
    return sum(p.grad.norm() for p in parameters)


def test_fixture(auditkit):
    auditkit.check(grad_norm).syncs(at_most=0)


@pytest.mark.auditkit(probes=["syncs_grow_with_tensors"])
def test_marker():
    return grad_norm
"""


def test_pytest_finds_the_plugin_and_can_leave_it_out(python: Path, tmp_path: Path) -> None:
    """Without it a test with the fixture is an error in pytest's own words, and so is the marked one where marks are
    strict; else pytest warns of its mark and of what it returns.
    """
    (tmp_path / "test_guarded.py").write_text(GUARDED, encoding="utf-8")
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    found = run(*command, cwd=tmp_path)
    assert (found.code, found.stdout.splitlines()[-1].split(" in ")[0]) == (0, "2 passed"), found.stdout
    without = run(*command, "-p", "no:auditkit", cwd=tmp_path)
    assert without.code == 1
    assert "fixture 'auditkit' not found" in without.stdout
    assert "Unknown pytest.mark.auditkit" in without.stdout
    strict = run(*command, "-p", "no:auditkit", "--strict-markers", cwd=tmp_path)
    assert (strict.code, "'auditkit' not found in `markers` configuration option" in strict.stdout) == (2, True)
