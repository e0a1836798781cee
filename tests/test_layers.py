"""The rules of the layers: who imports whom, what a file must not say, and that the linters are content."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.imports import Import, imports_of
from tests.layers import LAYERS, Layer
from tests.project_files import ROOT, project_files

PACKAGE = ROOT / "auditkit"
WORKER = PACKAGE / "worker"
OURS = frozenset({"auditkit", "tests", "probes"})


def part_of(path: Path) -> str:
    """The layer that a file of the package belongs to."""
    relative = path.relative_to(PACKAGE)
    folder = relative.parent.as_posix()
    return folder if folder in LAYERS else relative.parts[0] if len(relative.parts) > 1 else path.stem


def violations(part: str, source: str, package: str) -> Iterator[str]:
    """Every import of `source` that its layer does not allow, as a line of text."""
    layer = LAYERS[part]
    for found in imports_of(source, package):
        if found.top in sys.stdlib_module_names:
            continue
        allowed = _may_import_ours(layer, part, found) if found.top in OURS else _may_import_other(layer, found)
        if not allowed:
            yield f"line {found.line}: {part} imports {found.module} ({found.when})"


def _may_import_ours(layer: Layer, part: str, found: Import) -> bool:
    names = found.module.split(".")
    if part == "worker":
        return found.module.startswith("auditkit.worker.")
    imported = names[1] if len(names) > 1 else "version"
    if imported == "__version__":
        imported = "version"
    return imported in layer.ours or (found.when != "import" and imported in layer.calls_only)


def _may_import_other(layer: Layer, found: Import) -> bool:
    if found.when != "import":
        return found.top in layer.others | layer.in_functions | layer.optional
    return found.top in layer.others or (found.guarded and found.top in layer.optional)


def package_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).parent.parts)


def python_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def test_every_part_imports_only_what_its_layer_allows() -> None:
    """The import table of the design, read from the source."""
    found = [
        f"{path.relative_to(ROOT)}: {text}"
        for path in python_files(PACKAGE)
        for text in violations(part_of(path), path.read_text("utf-8"), package_of(path))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("part", "source", "message"),
    [
        (
            "model",
            "from auditkit.tickets.locks import locked",
            "line 1: model imports auditkit.tickets.locks.locked",
        ),
        ("probing", "import torch", "line 1: probing imports torch (import)"),
        ("worker", "from auditkit.errors import AuditkitError", "line 1: worker imports auditkit.errors"),
        (
            "cli",
            "def f():\n    from auditkit.worker.git import x",
            "line 2: cli imports auditkit.worker.git.x",
        ),
        ("__init__", "import auditkit.errors", "line 1: __init__ imports auditkit.errors (import)"),
    ],
)
def test_a_forbidden_import_is_caught(part: str, source: str, message: str) -> None:
    """A known-bad file for each rule: the reader of imports does not pass everything."""
    (text,) = violations(part, source, f"auditkit.{part}")
    assert text.startswith(message)


def modules() -> dict[str, Path]:
    """Every file of the package that is no package's `__init__`, by the name that it is imported as."""
    files = (path for path in python_files(PACKAGE) if path.name != "__init__.py")
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in files}


def imported_by(source: str, package: str, known: Collection[str]) -> set[str]:
    """The modules among `known` that `source` imports, in functions too; checkers' imports run nothing."""
    found = {one.module for one in imports_of(source, package) if one.when != "types"}
    return {name for name in known if found & {name} or any(one.startswith(name + ".") for one in found)}


def circle(imports: Mapping[str, set[str]]) -> list[str]:
    """Modules that import each other in a ring, the first one again at the end; none where there is no ring."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_files_import_each_other_in_a_circle() -> None:
    known = modules()
    read = {name: imported_by(path.read_text("utf-8"), package_of(path), known) for name, path in known.items()}
    assert sum(map(len, read.values())) > len(known)
    assert circle(read) == []


def test_importing_auditkit_imports_nothing() -> None:
    """A target may import auditkit by accident: that must cost it nothing."""
    assert imports_of((PACKAGE / "__init__.py").read_text("utf-8")) == []


NEWER = {"tomllib", "tomllib.load", "tomllib.loads", "datetime.UTC", "enum.StrEnum", "contextlib.chdir"} | {
    f"typing.{name}" for name in ("Self", "Never", "assert_never", "override", "Required", "NotRequired", "Unpack")
}
"""What modules of the standard library did not hold in Python 3.10."""


@pytest.mark.parametrize("path", python_files(WORKER) + sorted((ROOT / "probes").glob("*.py")), ids=lambda p: p.name)
def test_what_runs_in_the_targets_interpreter_is_python_3_10(path: Path) -> None:
    """Worker and probes parse with the grammar of 3.10, and use no module that came later."""
    source = path.read_text("utf-8")
    ast.parse(source, feature_version=(3, 10))
    assert {found.module for found in imports_of(source)} & NEWER == set()


@pytest.mark.parametrize("path", sorted((ROOT / "probes").glob("*.py")), ids=lambda path: path.name)
def test_a_probe_imports_nothing_of_ours(path: Path) -> None:
    """A probe gets a context; it imports what probes share, and torch inside functions only."""
    for found in imports_of(path.read_text("utf-8"), "probes"):
        if found.top not in {*sys.stdlib_module_names, "forms"}:
            assert (found.top, found.when) == ("torch", "call"), f"line {found.line} imports {found.module}"


def is_public(path: Path) -> bool:
    return not path.name.startswith("_") or path.name in ("__init__.py", "__main__.py")


def test_every_public_module_says_what_it_is_for() -> None:
    files = python_files(PACKAGE) + sorted((ROOT / "probes").glob("*.py"))
    silent = [path for path in files if is_public(path) and not ast.get_docstring(ast.parse(path.read_text("utf-8")))]
    assert silent == []


# Written in pieces, so that this file does not hold them itself.
FORBIDDEN = ("/wo" + "rk/", "/ro" + "ot/", "py" + "pi.org", "files.python" + "hosted", "../sha" + "red")


def forbidden_words(text: str) -> list[str]:
    return [word for word in FORBIDDEN if word in text]


def test_no_file_names_a_place_that_only_one_machine_has() -> None:
    """No absolute paths of a developer's machine, and no host of a package index."""
    found = {}
    for path in project_files():
        name = path.relative_to(ROOT).as_posix()
        words_found = forbidden_words(path.read_text("utf-8", errors="replace"))
        if words_found:
            found[name] = words_found
    assert found == {}


def test_a_forbidden_word_is_caught() -> None:
    assert forbidden_words(f"see {FORBIDDEN[0]}main") == [FORBIDDEN[0]]
    assert ROOT / "tests" / "test_layers.py" in project_files()


def check(*command: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.process
def test_ruff_is_content() -> None:
    assert check("ruff", "check", "--no-cache", ".") == (0, "All checks passed!\n")
    code, output = check("ruff", "format", "--no-cache", "--check", ".")
    assert code == 0, output


@pytest.mark.slow
def test_mypy_is_content(tmp_path: Path) -> None:
    """The whole package is typed, strictly."""
    code, output = check("mypy", "--strict", "--cache-dir", str(tmp_path), "auditkit")
    assert (code, output.startswith("Success")) == (0, True), output


PROBES_MAY = ("var-annotated", "index", "misc", "call-overload", "arg-type")
"""PROBE is a plain dictionary, and one `error` follows another."""


@pytest.mark.process
def test_mypy_is_content_with_the_probes(tmp_path: Path) -> None:
    """No types are asked of a probe, whose `ctx` is anything: what it names and calls must be there in Python 3.10.

    Torch is not read, which takes half a minute and which one probe imports. The control names what is not there.
    """
    bad = tmp_path / "bad_probe.py"
    bad.write_text("import math\n\n\ndef measure(ctx):\n    yield ctx.note(math.cubed(3), missing)\n", encoding="utf-8")
    allowed = [f"--disable-error-code={code}" for code in PROBES_MAY]
    options = ["--config-file=", "--python-version=3.10", "--check-untyped-defs", "--follow-imports=skip"]
    files = map(str, (*sorted((ROOT / "probes").glob("*.py")), bad))
    code, output = check("mypy", *options, *allowed, "--cache-dir", str(tmp_path / "cache"), *files)
    errors = [line for line in output.splitlines() if ": error: " in line]
    assert (code, len(errors)) == (1, 2), output
    assert 'bad_probe.py:5: error: Module has no attribute "cubed"' in output
    assert 'bad_probe.py:5: error: Name "missing" is not defined' in output
