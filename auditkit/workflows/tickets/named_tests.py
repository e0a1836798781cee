"""The tests that a resolution names: `path[::node]` from the top of the repository, and there."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from auditkit.errors import BadInputError, nearest_names
from auditkit.model.text import inert_line
from auditkit.probing.checkouts import git
from auditkit.probing.checkouts.checkout import parse_checkout

_EXAMPLE = "tests/test_norms.py::test_no_overflow, from the top of the repository"


@dataclass(frozen=True)
class TestedCode:
    """Where tests are looked for: the files below `top`, then those of `revisions`, which may not be checked out."""

    __test__ = False  # it is no test

    top: Path
    revisions: tuple[str, ...] = ()

    @classmethod
    def around(cls, checkout: str | Path, commits: Sequence[str] = ()) -> TestedCode:
        """The repository around a checkout (`DIR` or `DIR@REV`), else its folder."""
        spec = parse_checkout(checkout)
        repository = git.find_repository(spec.directory)
        if repository is None or not repository.has_work_tree:
            return cls(spec.directory)
        return cls(repository.top, (*filter(None, [spec.revision]), *commits))

    def check(self, tests: Iterable[str], known: Iterable[str] = ()) -> None:
        """Raises BadInputError for a test that is not there; those that the ticket names already are left alone."""
        for test in tests:
            if test not in known:
                self._check(test)

    def _check(self, test: str) -> None:
        written, *names = test.split("::")
        path = PurePosixPath(written)
        if not written or path.is_absolute() or ".." in path.parts or not all(names):
            raise BadInputError(f"not a test: '{inert_line(test)}'", _EXAMPLE)
        sources = list(self._sources(path))
        if not sources:
            raise BadInputError(f"no such test file: {inert_line(written)} in {self.top}", _EXAMPLE)
        if names and not any(_defines(source, names) for source in sources):
            near = nearest_names(names[-1], _functions(sources[0]))
            hint = f"did you mean {', '.join(near)}?" if near else _EXAMPLE
            raise BadInputError(f"{inert_line(written)} has no test '{inert_line('::'.join(names))}'", hint)

    def _sources(self, path: PurePosixPath) -> Iterable[str]:
        file = self.top / path
        if file.is_file():
            yield file.read_text("utf-8", errors="replace")
        for revision in self.revisions:
            shown = git.run_git(self.top, "show", f"{revision}:{path}")
            if shown.returncode == 0:
                yield shown.stdout


def _defines(source: str, names: Sequence[str]) -> bool:
    """Whether classes and functions of these names lie in each other; `[...]` behind the last is a case of it."""
    bodies: list[list[ast.stmt]] = [_body(source)]
    for name in names:
        wanted = name.partition("[")[0]
        bodies = [node.body for body in bodies for node in _definitions(body) if node.name == wanted]
    return bool(bodies)


def _functions(source: str) -> list[str]:
    return [node.name for node in _definitions(_body(source))]


def _body(source: str) -> list[ast.stmt]:
    try:
        return ast.parse(source).body
    except (SyntaxError, ValueError):
        return []


def _definitions(body: Sequence[ast.stmt]) -> list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    found: list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef] = []
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.append(node)
    return found
