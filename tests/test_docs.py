"""The pages of docs: every link leads somewhere, the site has every page, and prose uses the glossary's words."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest
import yaml

from tests.project_files import ROOT

DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_WRITTEN = re.compile(r"<!-- written.*?<!-- /written -->", re.DOTALL)
_FENCED = re.compile(r"^(`{3,}).*?^\1$", re.DOTALL | re.MULTILINE)

PRIVATE = re.compile(
    r"\b(asks?|asked|asking|questions?|answers?|answered|told|heard|mend\w*|remed\w+|dear|dearer|stand-ins?|placeholders?"
    r"|pretend\w*|remembered|(?<![-/([])cage[ds]?|houses?|rooms?|storeys?|ladders?|rungs?|climb\w*|handed"
    r"|hand(s|ed)? (it|them|over)|nobody|somebody|whoever|synchronis\w+|sums in)\b",
    re.IGNORECASE,
)
"""Words of the project's early private language, which new readers did not understand."""
ALLOWED = {
    "by rung": "the heading of a generated column",
    "Not told apart": "plain English",
    "told from copies": "plain English",
    "{answer}": "the name of a measurement",
    "answers: same": "a form of a requirement in a plan",
}
"""Phrases with such a word that stay, and why."""


def private_words(text: str) -> list[str]:
    """The words of a page's prose that the glossary replaces; code and written tables do not count."""
    for phrase in ALLOWED:
        text = text.replace(phrase, "")
    return [match[0] for match in PRIVATE.finditer(re.sub(r"`[^`]*`", "", _FENCED.sub("", _WRITTEN.sub("", text))))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_prose_uses_the_words_of_the_field(page: Path) -> None:
    assert private_words(page.read_text(encoding="utf-8")) == []


def test_a_private_word_is_seen() -> None:
    """The control: in prose, but not in code, in a written table or in an allowed phrase."""
    text = "The probe is asked. `ask`, by rung\n```\ntold\n```\n<!-- written: x -->\nmended\n<!-- /written -->\n"
    assert private_words(text) == ["asked"]


def private_texts(source: str) -> dict[str, int]:
    """The private words, with a line of each, in docstrings, in comments and in strings of several words.

    The keys of a Record and a string of single words without any blank are no text for a user.
    """
    tree = ast.parse(source)
    keys = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "keys"}
    texts = [
        (node.value, node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in keys
    ]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    texts += [(token.string, token.start[0]) for token in tokens if token.type == tokenize.COMMENT]
    return {word: line for text, line in texts if " " in text.strip() for word in private_words(text)}


@pytest.mark.parametrize(
    "folder", ["../probes", ".", *sorted({one.parent.name for one in (ROOT / "auditkit").glob("*/*.py")})]
)
def test_code_uses_the_words_of_the_field(folder: str) -> None:
    files = (ROOT / "auditkit" / folder).glob("**/*.py" if folder.isidentifier() else "*.py")
    found = {str(path): private_texts(path.read_text(encoding="utf-8")) for path in files}
    assert {name: words for name, words in found.items() if words} == {}


def test_a_private_word_in_code_is_seen() -> None:
    """The control: in a docstring, a comment, a message and a part of one; not in a key or a name."""
    source = (
        'class Run(Record, keys="answer rung"):\n    """It was asked."""\n'
        "def _tell(answer):\n    # It may be dear.\n"
        '    return "told", f"{answer} was heard", "nobody knows"\n'
    )
    assert private_texts(source) == {"asked": 2, "dear": 4, "heard": 5, "nobody": 5}


def broken_links(page: Path, text: str) -> list[str]:
    """The relative links of a page whose file is not there or whose heading the linked page does not have."""
    targets = [link for link in _LINK.findall(_FENCED.sub("", text)) if not link.startswith("http")]
    return [link for link in targets if not _leads_somewhere(page, *link.partition("#")[::2])]


def _leads_somewhere(page: Path, path: str, anchor: str) -> bool:
    target = (page.parent / path).resolve() if path else page
    if not target.exists() or not anchor:
        return target.exists()
    headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
    return anchor in {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken_links(page, page.read_text(encoding="utf-8")) == []


def test_a_broken_link_is_seen() -> None:
    """The control: a missing file and a missing heading, beside links that are right or in a code block."""
    text = "[a](audits.md) [b](gone.md) [c](audits.md#exit-codes) [d](audits.md#gone)\n```\n[e](x.md)\n```\n"
    assert broken_links(DOCS / "page.md", text) == ["gone.md", "audits.md#gone"]


GUIDES = [page for page in PAGES if DOCS in page.parents and DOCS / "evidence" not in page.parents]


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_a_guide_or_a_decision_is_a_page_of_60_lines(page: Path) -> None:
    """Prose is at most 120 characters wide; what a program wrote may be wider."""
    text = page.read_text(encoding="utf-8")
    prose = _FENCED.sub("", _WRITTEN.sub("", text))
    assert text.splitlines()[60:] + [line for line in prose.splitlines() if len(line) > 120] == []


def test_the_navigation_has_every_page() -> None:
    """A link that leaves docs would be dead on the site, too."""
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert set(_paths(site["nav"])) == {page.relative_to(DOCS).as_posix() for page in PAGES if DOCS in page.parents}
    leaving = [page.name for page in PAGES if DOCS in page.parents and f"]({'../' * _depth(page)}" in page.read_text()]
    assert leaving == []


def _depth(page: Path) -> int:
    return len(page.relative_to(DOCS).parts)


def _paths(entry: object) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    children = entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else []
    return [path for child in children for path in _paths(child)]
