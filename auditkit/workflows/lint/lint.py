"""Lint a folder of tickets: read the pages, mend what is mechanical where asked to, and check the rules."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any, ClassVar, NamedTuple

from auditkit import __version__
from auditkit.errors import BadInputError, nearest_names
from auditkit.exporters.sarif import lint_sarif
from auditkit.model.codec import Record
from auditkit.model.tickets.ids import TicketId, find_ticket_ids
from auditkit.model.tickets.page import Page
from auditkit.model.tickets.ticket import BrokenTicket, Ticket
from auditkit.probing.checkouts import git
from auditkit.probing.checkouts.checkout import parse_checkout
from auditkit.rules.lint.baseline import not_known
from auditkit.rules.lint.catalog import all_rules, rules_named, select_rules
from auditkit.rules.lint.check import LintFinding, check_pages
from auditkit.rules.lint.checks.duplicates import SIMILAR_TITLE
from auditkit.rules.lint.checks.metadata import UNREADABLE
from auditkit.rules.lint.checks.wording import jaccard, words_in
from auditkit.rules.lint.rule import Level, LintContext, LintSettings, Rule, SourceTree
from auditkit.store.config.config import Config, read_config
from auditkit.store.config.config_file import config_near
from auditkit.store.folder.branches import BranchFile, added_on_branches, read_on_branch
from auditkit.store.folder.repository import Entry, Repository
from auditkit.store.listing import rows as at
from auditkit.store.listing.index import read_index
from auditkit.store.markdown.document import BrokenFileError, Document
from auditkit.store.markdown.evidence import ticket_digest
from auditkit.store.markdown.pages import page_of
from auditkit.store.reading.reader import line_ranges, read_ticket, ticket_of
from auditkit.workflows.lint.baseline import read_baseline, write_baseline
from auditkit.workflows.lint.fixes import LintChange, fix_entries
from auditkit.workflows.lint.scope import Scope, find_scopes
from auditkit.workflows.lint.settings import in_their_repository, lint_settings
from auditkit.workflows.lint.source_tree import open_source_tree

__all__ = ["LEVELS", "LintFinding", "LintReport", "LintRequest", "lint", "parse_level", "sarif_of", "title_of"]

LEVELS = tuple(level.value for level in Level)


@dataclass(frozen=True)
class LintRequest:
    """What to lint: `paths` are files, folders and ids; `tickets` the folder of ids and of no path at all.

    `select` and `ignore` are ids of rules or their beginnings; `select` replaces what the configuration selects
    and ignores, `ignore` adds to it. `checkout` is `DIR` or `DIR@REV`, without one the configuration's. With
    `fix` files are changed. What the file `baseline` knows is left out; with `accept` it is written anew.
    """

    paths: Sequence[str] = ()
    tickets: Path | None = None
    config: Path | None = None
    checkout: str | None = None
    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    fix: bool = False
    baseline: Path | None = None
    accept: bool = False


@dataclass(frozen=True)
class LintReport(Record, keys="findings changes summary"):
    """What was found, in the order of paths and lines; `count` is of tickets, `broken` of files that are none.

    `known` is how many findings the baseline has left out, and `gone` how many of it were not found again.
    """

    schema_version: ClassVar[int] = 1

    findings: tuple[LintFinding, ...]
    changes: tuple[LintChange, ...]
    count: int
    broken: int
    known: int = 0
    gone: int = 0

    def at_level(self, level: Level) -> int:
        """How many findings have that level."""
        return sum(finding.level is level for finding in self.findings)

    def reaches(self, level: Level) -> bool:
        """Whether a finding has that level or a worse one."""
        return any(finding.level.at_least(level) for finding in self.findings)

    @property
    def summary(self) -> dict[str, int]:
        levels = {level.value: self.at_level(level) for level in Level}
        baseline = {"known": self.known, "gone": self.gone} if self.known or self.gone else {}
        return {"tickets": self.count, "broken": self.broken, **levels, **baseline}


@dataclass(frozen=True)
class _Task:
    """What every folder of a request is linted with."""

    request: LintRequest
    config: Config
    rules: Sequence[Rule]
    checkout: Path | None
    tree: SourceTree | None

    @property
    def rule_ids(self) -> frozenset[str]:
        return frozenset(rule.id for rule in self.rules)

    def settings_of(self, folder: Path) -> LintSettings:
        return lint_settings(self.config, folder, self.checkout)


def lint(request: LintRequest) -> LintReport:
    """Lint what `request` names.

    Raises BadInputError for unknown rules, paths that are not there and a wrong configuration, and
    StoreConflictError where a fix or the baseline cannot be written.
    """
    baseline = read_baseline(request.baseline) if request.baseline and not request.accept else None
    if request.tickets is not None and not request.tickets.is_dir():
        raise BadInputError(f"no tickets folder: {request.tickets}", "name the folder: --tickets DIR")
    config = _read_config(request.config or config_near(request.tickets), request.config is not None)
    rules = _select(request, config)
    checkout = request.checkout or config.checkout
    spec = parse_checkout(checkout) if checkout else None
    with open_source_tree(spec.directory, spec.revision) if spec else contextlib.nullcontext() as tree:
        task = _Task(request, config, rules, spec.directory if spec else None, tree)
        reports = [_lint_folder(scope, task) for scope in _scopes(task)]
    findings = sorted(finding for report in reports for finding in report.findings)
    if request.accept and request.baseline is not None:
        baseline = write_baseline(request.baseline, findings)
    new, gone = not_known(findings, baseline) if baseline is not None else (findings, 0)
    return LintReport(
        tuple(new),
        tuple(change for report in reports for change in report.changes),
        sum(report.count for report in reports),
        sum(report.broken for report in reports),
        len(findings) - len(new),
        gone,
    )


def parse_level(text: str) -> Level:
    """The level that `text` is; raises ValueError."""
    return Level(text.strip().lower())


def title_of(rule_id: str) -> str:
    """What a rule finds, in one sentence."""
    return all_rules()[rule_id].title


def sarif_of(report: LintReport) -> dict[str, Any]:
    """The report as one SARIF log, with every rule in it; the files are read again for the ends of their lines."""
    widths = {}
    for path in {finding.path for finding in report.findings}:
        with contextlib.suppress(OSError):
            lines = Path(path).read_bytes().decode("utf-8", "replace").splitlines()
            widths.update({(path, number): len(line) for number, line in enumerate(lines, 1)})
    return lint_sarif(report.findings, list(all_rules().values()), __version__, widths)


def _read_config(path: Path | None, is_named: bool) -> Config:
    return read_config(path, known_rules=tuple(all_rules()), is_named=is_named) if path else Config()


def _select(request: LintRequest, config: Config) -> tuple[Rule, ...]:
    for name in (*request.select, *request.ignore):
        if not rules_named(name):
            near = nearest_names(name.upper(), all_rules())
            hint = f"did you mean {', '.join(near)}?" if near else "docs/lint.md lists them"
            raise BadInputError(f"no rule is named '{name}'", hint)
    if request.select:
        return select_rules(request.select, request.ignore)
    return select_rules(config.lint.select, (*config.lint.ignore, *request.ignore))


def _scopes(task: _Task) -> list[Scope]:
    tickets = task.request.tickets
    return find_scopes(task.request.paths, tickets, task.settings_of(tickets or Path()).folders)


def _lint_folder(scope: Scope, task: _Task) -> LintReport:
    repository, settings = Repository(scope.folder), task.settings_of(scope.folder)
    changes: tuple[LintChange, ...] = ()
    files = repository.files()
    reads = list(_read_all(repository, scope, filter(scope.holds, files)))
    if task.request.fix:
        entries = [read for read in reads if isinstance(read, Entry)]
        changes = fix_entries(repository, entries, settings, task.rule_ids)
        scope, files = _after(scope, changes), repository.files()
        reads = list(_read_all(repository, scope, filter(scope.holds, files)))
    reads, known = _with_near(repository, scope, files, reads)
    if task.checkout is None and "first_commit" not in task.config.lint.settings:
        settings = in_their_repository(settings, known.created)
    pages = [(read.file, page_of(read.document, read.ticket)) for read in reads if isinstance(read, Entry)]
    context = LintContext(
        settings,
        pages=_by_id(page for _, page in pages),
        titles=known.titles,
        reports={**_named_reports(scope.folder, pages), **_texts(scope.folder, known.others)},
        tree=task.tree,
        folder=_as_seen_from(task.checkout, scope.folder),
        digests=_digests(reads),
        branches=_taken_on_branches(scope.folder, [page for _, page in pages]) if "TK004" in task.rule_ids else {},
    )
    chosen = [(str(file), page) for file, page in pages if scope.holds(file)]
    broken = [read for read in reads if isinstance(read, BrokenTicket) and scope.holds(scope.folder / read.path)]
    found = check_pages(chosen, context, task.rules, task.config.lint.levels)
    found += [_unreadable(scope.folder, problem) for read in broken for problem in read.problems]
    return LintReport(tuple(found), changes, len(chosen), len(broken))


def _as_seen_from(checkout: Path | None, folder: Path) -> str:
    """The path of the tickets folder in the checkout, "" where it lies elsewhere."""
    if checkout is None or not folder.resolve().is_relative_to(checkout.resolve()):
        return ""
    relative = folder.resolve().relative_to(checkout.resolve()).as_posix()
    return "" if relative == "." else relative


def _read_all(repository: Repository, scope: Scope, files: Iterable[Path]) -> Iterator[Entry | BrokenTicket]:
    for file in files:
        read = repository.read(file)
        if read is None and file in scope.named:
            read = _read_as_ticket(file, repository.folder)
        if read is not None:
            yield read


class _Known(NamedTuple):
    """Of every ticket of a folder its title (none for those that are read anyway) and date; its other pages' paths."""

    titles: dict[TicketId, str]
    created: Sequence[str]
    others: Iterable[str]


def _with_near(
    repository: Repository, scope: Scope, files: Sequence[Path], reads: list[Entry | BrokenTicket]
) -> tuple[list[Entry | BrokenTicket], _Known]:
    """What was read of the scope, with the tickets that rules compare it with: where it is not all, the index knows."""
    entries = [read for read in reads if isinstance(read, Entry)]
    tickets = {read.ticket.path if isinstance(read, Entry) else read.path for read in reads}
    if scope.files is None:
        paths = {file.relative_to(scope.folder) for file in files} - tickets
        return reads, _Known({}, [entry.ticket.created for entry in entries], map(str, paths))
    index = read_index(str(scope.folder))
    ids = {entry.ticket.id for entry in entries}
    ids.update(*(find_ticket_ids(entry.document.data.decode("utf-8", "replace")) for entry in entries))
    named: dict[str, list[Ticket]] = {}
    for entry in entries:
        named.setdefault(_name_of_file(entry.ticket.files), []).append(entry.ticket)
    rows = zip(*map(index.column, (at.ID, at.PATH, at.FILES, at.LINES, at.TITLE)), strict=True)
    near = {
        scope.folder / path
        for one, path, cited, lines, title in rows
        if one in ids or (_name_of_file(cited) in named and _may_pair(named[_name_of_file(cited)], lines, title))
    }
    titles = dict(zip(*map(index.column, (at.ID, at.TITLE)), strict=True))
    others = [path for path in index.others if PurePath(path) not in tickets]
    wanted = (file for file in files if file in near or scope.holds(file))
    return list(_read_all(repository, scope, wanted)), _Known(titles, index.column(at.CREATED), others)


def _may_pair(tickets: Sequence[Ticket], lines: str, title: str) -> bool:
    """Whether a ticket with these lines of one file and this title makes a pair with one of `tickets`."""
    ranges, words = line_ranges(lines), words_in(title)
    return any(
        jaccard(words, words_in(ticket.title)) >= SIMILAR_TITLE
        or any(one.first <= other.last and other.first <= one.last for one in ranges for other in ticket.lines)
        for ticket in tickets
    )


def _name_of_file(files: Sequence[str]) -> str:
    """The last part of the only file that a ticket names: those of two that name the same one are the same."""
    return PurePath(files[0]).name if len(files) == 1 else ""


def _read_as_ticket(file: Path, folder: Path) -> Entry | BrokenTicket:
    """A page that looks like none, as a ticket all the same: it was named."""
    try:
        document = Document.parse(file.read_bytes(), file.relative_to(folder))
        return Entry(file, document, ticket_of(document))
    except BrokenFileError as error:
        return error.broken


def _digests(reads: Sequence[Entry | BrokenTicket]) -> dict[PurePath, str]:
    """What a review would judge now, of the tickets whose reviews say what they judged."""
    entries = (read for read in reads if isinstance(read, Entry))
    return {
        entry.ticket.path: ticket_digest(entry.document)
        for entry in entries
        if any(review.judged for review in entry.ticket.reviews)
    }


def _taken_on_branches(folder: Path, pages: Sequence[Page]) -> dict[TicketId, list[str]]:
    """The other local branches that have given the id of one of the pages to a ticket with another title."""
    added = added_on_branches(folder)
    return {
        page.ticket.id: branches
        for page in pages
        if (branches := [file.branch for file in added.get(page.ticket.id, ()) if _is_other(folder, file, page)])
    }


def _is_other(folder: Path, file: BranchFile, page: Page) -> bool:
    try:
        return read_ticket(read_on_branch(folder, file), PurePath(file.path)).title != page.ticket.title
    except BrokenFileError:
        return True


def _by_id(pages: Iterator[Page]) -> dict[TicketId, list[Page]]:
    found: dict[TicketId, list[Page]] = {}
    for page in pages:
        found.setdefault(page.ticket.id, []).append(page)
    return found


def _texts(folder: Path, paths: Iterable[str]) -> dict[str, str]:
    return {path: (folder / path).read_bytes().decode("utf-8", "replace") for path in paths}


def _named_reports(folder: Path, pages: Sequence[tuple[Path, Page]]) -> dict[str, str]:
    """The reports that tickets name and that lie in the repository of the tickets folder, where it has one."""
    repository = git.find_repository(folder)
    if repository is None or not repository.has_work_tree:
        return {}
    named = {report.file for _, page in pages for report in page.ticket.reports}
    inside = (path for path in named if not PurePath(path).is_absolute() and ".." not in PurePath(path).parts)
    return _texts(repository.top, (path for path in inside if (repository.top / path).is_file()))


def _unreadable(folder: Path, problem: BrokenTicket) -> LintFinding:
    path = str(folder / problem.path)
    return LintFinding(path, problem.line, problem.column, UNREADABLE, problem.message, Level.ERROR)


def _after(scope: Scope, changes: Sequence[LintChange]) -> Scope:
    """The scope with the new names of files that were moved."""
    if scope.files is None:
        return scope
    moved = {change.file: change.moved_to for change in changes if change.moved_to}
    return replace(scope, files=frozenset(moved.get(file, file) for file in scope.files))
