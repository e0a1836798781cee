"""Reading a checkout's files: which belong to it, what each says, and why one cannot be read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from auditkit.model.enums import Outcome, Reason
from auditkit.probing.source.files import list_files
from tests.project_files import our_environment
from tests.source_helpers import LOOP, SOURCE_PROBES, findings, read, write
from tests.verify_helpers import git

pytestmark = pytest.mark.process

BAD = "import torch\n\n\ndef norms(grads: list[torch.Tensor]):\n    return [g.norm().item() for g in grads]\n"


@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        ("x = 1\ndef f(:\n    pass\n", 2, f"invalid syntax (read as Python 3.{sys.version_info.minor})"),
        ("x = 1\n  y = 2\n", 2, "unexpected indent"),
        ("def f():\n    return (\n", 2, "'(' was never closed"),
        (b"x = 1\n\ny = 'caf\xe9'\n", 3, "not utf-8"),
        (b"# coding: latin-13\nx = 1\n", 1, "unknown encoding"),
        (b"x = 1\n\ny = 2\0\n", 3, "null bytes"),
        ("x = " + "(" * 500 + "1" + ")" * 500 + "\n", 1, "too many nested parentheses"),
        ("x = " + "-" * 50_000 + "1\n", 1, "nested too deeply"),
        ("x = " + "+".join(["1"] * 20_000) + "\n", 1, "nested too deeply"),
        ("print 'text'\n", 1, "Missing parentheses"),
    ],
    ids=["syntax", "indent", "unclosed", "bytes", "cookie", "null", "parentheses", "unary", "sum", "python2"],
)
def test_a_file_that_does_not_parse_is_an_error_of_that_file(
    source: str | bytes, line: int, message: str, tmp_path: Path
) -> None:
    """One result for each probe with the file's line; the finding in the other file is there all the same."""
    results = read(write(tmp_path, {"pkg/broken.py": source, "pkg/good.py": BAD}))
    errors = [result for result in results if result.outcome is Outcome.ERROR]
    assert {result.probe for result in errors} == set(SOURCE_PROBES)
    for result in errors:
        assert (result.target, result.reason) == ("pkg/broken.py", Reason.NOT_PARSED)
        assert result.message.startswith(f"pkg/broken.py:{line}: ")
        assert message in result.message
        assert (result.location.file, result.location.line) == ("pkg/broken.py", line)
    assert "pkg.good:norms" in findings([result for result in results if result.probe == LOOP])


def test_only_the_checkouts_own_files_are_read(tmp_path: Path) -> None:
    """Hidden, vendored, built and environment folders are left out, and what git ignores."""
    git(write(tmp_path, {".gitignore": "runs/\n", "runs/1/code/own.py": ""}), "init", "-q")
    files = {"pkg/own.py": "", ".venv/lib/x.py": "", "build/lib/x.py": "", "vendor/x.py": "", ".hidden/x.py": ""}
    write(tmp_path, {**files, "pyproject.toml": "", "notes.md": "", "picture.png": "", "poetry.lock": ""})
    kinds = {source.name: source.kind for source in list_files(tmp_path)}
    assert kinds == {"pkg/own.py": "python", "pyproject.toml": "settings", "notes.md": "prose"}


def test_nothing_is_imported_or_run(tmp_path: Path) -> None:
    """A module that would leave a mark and end the process; the probes read it and go on."""
    mark = tmp_path / "executed"
    trap = f"open({str(mark)!r}, 'w')\nraise SystemExit(3)\n"
    checkout = write(tmp_path / "checkout", {"pkg/__init__.py": trap, "pkg/norms.py": BAD + trap, "setup.py": trap})
    assert "pkg.norms:norms" in findings(read(checkout, LOOP))
    assert not mark.exists()


def test_it_works_where_torch_is_not_installed(tmp_path: Path) -> None:
    """In a process in which `import torch` fails, all seven probes answer."""
    write(tmp_path, {"pkg/norms.py": BAD})
    code = (
        "import sys\n"
        "sys.modules['torch'] = None\n"
        "from pathlib import Path\n"
        "from tests.source_helpers import read, findings\n"
        f"results = read(Path({str(tmp_path)!r}))\n"
        "assert not [r for r in results if r.outcome.value == 'error'], results\n"
        "print(*sorted(findings(results)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=our_environment(), capture_output=True, text=True, check=False
    )
    assert (done.stderr, done.stdout.split()) == ("", ["pkg.norms", "pkg.norms:norms"])


def test_a_test_file_that_does_not_parse_names_every_word_in_it(tmp_path: Path) -> None:
    """What it would have named is taken as named: no false alarm for lack of a comma."""
    files = {"norms.py": "def total_norm(grads):\n    return grads[0].norm()\n", "tests/test_norms.py": "total_norm(\n"}
    results = read(write(tmp_path, files), "public_function_unused", "public_function_untested")
    assert {result.outcome for result in results} == {Outcome.NOT_REPRODUCED}
    write(tmp_path, {"tests/test_norms.py": "other(\n"})
    again = read(tmp_path, "public_function_unused", "public_function_untested")
    assert {result.outcome for result in again} == {Outcome.REPRODUCED}
