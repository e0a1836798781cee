"""Everything that CI runs, and what it does not: `nox` runs the first, `nox -l` lists both."""

import re
import shutil
import sys
import tempfile
from pathlib import Path

import nox

nox.options.sessions = ["lint", "types", "unit", "process", "acceptance"]
CONSTRAINTS = Path(".ci/constraints.txt")
PYTHONS = ["3.11", "3.12", "3.13"]


def install(session: nox.Session) -> None:
    session.install("-c", str(CONSTRAINTS), "-e", ".[dev]")


@nox.session
def lint(session: nox.Session) -> None:
    """ruff, its rules and its format, as the test suite runs it too."""
    session.install("-c", str(CONSTRAINTS), "ruff")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """mypy: strict on the package; on the probes, whose `ctx` is anything, what Python 3.10 makes of them."""
    install(session)
    session.run("pytest", "tests/test_layers.py", "-k", "mypy", "-m", "")


@nox.session(python=PYTHONS)
def unit(session: nox.Session) -> None:
    """The tests that start no worker: within 90 s on two cores."""
    install(session)
    session.run("pytest", "-m", "unit", "-n", "2", *session.posargs)


@nox.session(python=PYTHONS)
def process(session: nox.Session) -> None:
    """The tests with workers, git and real tickets: within 5 minutes together with `unit`."""
    install(session)
    session.run("pytest", "-m", "process and not slow and not gpu", "-n", "3", "--dist", "worksteal", *session.posargs)


@nox.session
def acceptance(session: nox.Session) -> None:
    """The README's examples, the wheel, every probe on a share of the specimens."""
    install(session)
    session.run("pytest", "-m", "acceptance and not slow and not gpu", "-n", "3", *session.posargs)


@nox.session(name="worker-3.10", python="3.11")
def worker_310(session: nox.Session) -> None:
    """A worker in the oldest interpreter that a target may have. Needs python3.10 on the PATH."""
    install(session)
    with tempfile.TemporaryDirectory() as folder:
        session.run("python3.10", "-m", "venv", folder, external=True)
        python = f"{folder}/bin/python"
        session.run(python, "-m", "pip", "install", "-q", "torch>=2.9", "numpy", external=True)
        session.run("pytest", "tests/probing/engine/test_oldest_python.py", env={"AUDITKIT_OLDEST_PYTHON": python})


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation as a site in build/site; a broken link fails. The pages load nothing from elsewhere."""
    session.install("mkdocs-material>=9.7,<10")  # 10 would be another generator
    session.run("mkdocs", "build", env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session
def release(session: nox.Session) -> None:
    """Build wheel and sdist in dist; check names, metadata, and clean environments with and without torch."""
    session.install("-c", str(CONSTRAINTS), "build", "twine")
    shutil.rmtree("dist", ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", "dist")
    built = sorted(str(path) for path in Path("dist").iterdir())
    if not all(Path(path).name.startswith("torch_auditkit-") for path in built):
        session.error(f"dist has a file of another name: {built}")
    session.run("twine", "check", "--strict", *built)
    (wheel,) = (Path(path).resolve() for path in built if path.endswith(".whl"))
    for extra, code in (("", 5), ("[audit]", 1)):
        with tempfile.TemporaryDirectory() as folder:
            session.run("python", "-m", "venv", f"{folder}/venv", silent=True)
            pip, auditkit = f"{folder}/venv/bin/pip", f"{folder}/venv/bin/auditkit"
            session.run(pip, "install", "-q", "-c", str(CONSTRAINTS.resolve()), f"{wheel}{extra}", external=True)
            with session.chdir(folder):
                session.run(auditkit, "audit", external=True, success_codes=[code], silent=True)
                session.run(auditkit, "ticket", "lint", external=True, success_codes=[0, 2], silent=True)


@nox.session
def coverage(session: nox.Session) -> None:
    """Which lines and branches of auditkit/ the tests reach: a report, and no threshold."""
    install(session)
    session.install("coverage>=7.10")
    session.run("coverage", "run", "-m", "pytest", *session.posargs)
    session.run("coverage", "combine")
    session.run("coverage", "report")


@nox.session
def slow(session: nox.Session) -> None:
    """The tests that take minutes or gigabytes: the bundled audit, every probe on every specimen."""
    install(session)
    session.run("pytest", "-m", "slow", *session.posargs)


@nox.session
def gpu(session: nox.Session) -> None:
    """The tests that need a CUDA device."""
    install(session)
    session.run("pytest", "-m", "gpu", *session.posargs)


@nox.session(name="gpu-evidence", venv_backend="none")
def gpu_evidence(session: nox.Session) -> None:
    """What a GPU shows; `nox -s gpu-evidence -- --rehearse` runs every line of it without one."""
    session.run(sys.executable, "-m", "benchmarks.gpu", *session.posargs, external=True)


@nox.session(name="newest-torch")
def newest_torch(session: nox.Session) -> None:
    """The default tests with the newest release of every dependency: does the next torch break us?"""
    session.install("-U", "-e", ".[dev]")
    session.run("pytest", "-n", "3", *session.posargs)


@nox.session(python="3.11")
def constraints(session: nox.Session) -> None:
    """Rewrite .ci/constraints.txt with the newest versions that fit; run the tests before you commit it."""
    session.install("-U", "-e", ".[dev]")
    frozen = session.run("pip", "freeze", "--exclude-editable", silent=True) or ""
    pins = [re.sub(r"\+\w+$", "", line) for line in frozen.splitlines() if "==" in line]
    head = "# The versions that the tests pass with, on Python 3.11. Made by `nox -s constraints`.\n"
    CONSTRAINTS.write_text(head + "".join(f"{pin}\n" for pin in sorted(pins, key=str.lower)), encoding="utf-8")
