"""The files that changed between two revisions, and the targets that are in them or call into them."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from auditkit.errors import BadInputError
from auditkit.model.runs.target import Target
from auditkit.model.text import counted
from auditkit.probing.checkout import git
from auditkit.probing.find.blocks.blocks import function_or_block
from auditkit.probing.source.modules import Function, instances_in
from auditkit.probing.source.python_files import PythonFiles

_MOST_CALLS = 4
"""How many calls may lie between a target and a function that changed."""


@dataclass(frozen=True)
class Changed:
    """The Python files that changed since `commit`, by their paths below the checkout."""

    commit: str
    files: frozenset[str]

    @classmethod
    def since(cls, directory: Path, revision: str, here: Path) -> Changed:
        """Compare the files in `here` with the last commit that `revision` and HEAD of `directory` share.

        A file that git does not track counts as changed. Raises BadInputError without a repository or revision.
        """
        base = git.run_git(directory, "merge-base", "--end-of-options", revision, "HEAD")
        commit = base.stdout.strip()
        if not commit:
            why = base.stderr.strip().removeprefix("fatal: ") or f"{revision} and HEAD have no commit in common"
            raise BadInputError(f"--changed: {why}", "name a commit: --against REV")
        found: set[str] = set()
        for words in (
            ("diff", "--name-only", "--no-renames", "--diff-filter=d", "-z", "--relative", commit, "--"),
            ("ls-files", "-z", "--others", "--exclude-standard"),
        ):
            found.update(git.run_git(directory, *words).stdout.split("\0"))
        return cls(commit, frozenset(name for name in found if name.endswith(".py") and (here / name).is_file()))

    @classmethod
    def between(cls, directory: Path, base: str, head: str) -> Changed:
        """Compare two revisions of the repository; a file that only one of them has counts as changed."""
        words = ("diff", "--name-only", "--no-renames", "-z", "--relative", "--end-of-options", base, head, "--")
        names = git.run_git(directory, *words).stdout.split("\0")
        return cls(base, frozenset(name for name in names if name.endswith(".py")))

    def sentence(self) -> str:
        return f"{counted(len(self.files), 'Python file')} changed since {self.commit[:12]}"

    def has(self, target: Target, files: PythonFiles) -> bool:
        """Return whether a target is in a changed file, or calls a function of one."""
        module = target.call.partition(":")[0]
        file = files.file_of(module)
        if module in self.files or (file is not None and file.relative_to(files.path).as_posix() in self.files):
            return True
        function = function_or_block(files, target.call)
        for name in files.names.values():  # Names resolve only among parsed files, so parse all of them.
            files.module_of(f"{name}:")
        return function is not None and self._is_reached(function, files, set(), _MOST_CALLS)

    def _is_reached(self, function: Function, files: PythonFiles, seen: set[Function], most: int) -> bool:
        if function.module.file in self.files:
            return True
        if function in seen or not most:
            return False
        seen.add(function)
        owner = function.owner.methods.get("__init__") if function.owner else None
        instances = instances_in([function, owner], files.resolve)
        calls = (node for node in function.nodes if isinstance(node, ast.Call))
        callees = (files.callee(function, call, instances) for call in calls)
        return any(each is not None and self._is_reached(each, files, seen, most - 1) for each in callees)
