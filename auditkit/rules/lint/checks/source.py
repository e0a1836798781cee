"""The checkout as rules see it: a path in a ticket is found there, and its lines are ready to compare."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from auditkit.model.tickets.page import Page
from auditkit.rules.lint.rule import LintContext, SourceTree

_PATH = re.compile(r"\S*/.*|\S*\.[A-Za-z]\w*")
_BLANKS = re.compile(r"\s+")
_COMMENT = re.compile(r"\s# .*$")
_WORD = re.compile(r"[^\W\d]\w*")


def is_path(text: str) -> bool:
    """Whether a code span of File(s) is a path: `Multiple files` is none."""
    return _PATH.fullmatch(text) is not None


def without_prefix(path: str, prefix: str) -> str:
    """`path` as seen from the checkout, where it starts with the checkout's absolute path."""
    root = prefix.rstrip("/") + "/"
    return path[len(root) :] if prefix and path.startswith(root) else path


def locate(path: str, context: LintContext) -> str | None:
    """The file or folder of the tree that `path` names, None where there is none.

    An absolute path of another machine is matched by its longest end that is in the tree.
    """
    if context.tree is None:
        return None
    tree = context.tree
    folders = context.once(
        "folders", lambda _: {str(one) for file in tree.paths for one in PurePosixPath(file).parents}
    )
    relative = posixpath.normpath(without_prefix(path, context.settings.prefix))
    ends = [relative]
    if relative.startswith("/"):
        parts = PurePosixPath(relative).parts[1:]
        ends = ["/".join(parts[start:]) for start in range(len(parts))]
    return next((end for end in ends if end in tree.paths or end in folders), None)


def cited_files(page: Page, context: LintContext) -> list[str]:
    """The files of the tree that File(s) names, each once; folders and what is not there are left out."""
    found = (locate(path, context) for path in page.ticket.files if is_path(path))
    paths = context.tree.paths if context.tree else frozenset()
    return list(dict.fromkeys(path for path in found if path in paths and path is not None))


def length_of(path: str, tree: SourceTree) -> int:
    return len(tree.lines(path))


def normal_line(line: str) -> str:
    """A line of code without blanks around it, runs of blanks as one, and without the comment behind it."""
    return _BLANKS.sub(" ", _COMMENT.sub("", line)).strip()


def line_index(path: str, context: LintContext) -> Mapping[str, Sequence[int]]:
    """The numbers of the lines (1-based) that a file holds, by the normal form of the line."""
    tree = context.tree
    assert tree is not None, "only rules that need the tree ask for a file's lines"

    def build(_: LintContext) -> Mapping[str, Sequence[int]]:
        index: dict[str, list[int]] = {}
        for number, line in enumerate(tree.lines(path), start=1):
            index.setdefault(normal_line(line), []).append(number)
        return index

    return context.once(("lines", path), build)


def words_of(path: str, context: LintContext) -> frozenset[str]:
    """Every identifier that a file's text holds."""
    tree = context.tree
    assert tree is not None, "only rules that need the tree ask for a file's words"
    return context.once(("words", path), lambda _: frozenset(_WORD.findall("\n".join(tree.lines(path)))))
