"""Every --json document holds what its schema under docs/schema says, and the schemas hold the contract."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError
from referencing import Registry, Resource

from auditkit.model.enums import Contract, Evidence, Outcome, Reason, Severity, Takes
from auditkit.model.tickets.ticket import Status
from auditkit.probing.hosts.catalog import INSTRUMENTS
from tests.filing_helpers import put, ticket_text
from tests.project_files import ROOT, Ended, auditkit
from tests.verify_helpers import git

pytestmark = pytest.mark.acceptance

SCHEMAS = ROOT / "docs" / "schema"
NAMES = (
    "error", "board", "search", "brief",
    "run", "tickets", "next", "ticket_stats", "lint", "probes", "probe_new", "doctor", "init",
    "ticket_change", "ticket_verify", "ticket_try_fix", "ticket_fix", "ticket_claims",
    "ticket_changes", "ticket_undo", "ticket_log", "ticket_from_commits",
    "ticket_link", "ticket_renumber", "ticket_new", "ticket_import", "bisect",
    "report_audit", "report_code_audit", "report_batch", "report_summary", "report_review", "compare",
)  # fmt: skip

COLLECTORS = '''
import torch


def layer_norms(parameters, scale=1.0):
    """The norm of each gradient, read one by one."""
    return {"grad_norm": sum(scale * p.grad.norm().item() ** 2 for p in parameters if p.grad is not None) ** 0.5}


def stalls(parameters):
    """A norm that cannot be had."""
    norms = [p.grad.norm() for p in parameters if p.grad is not None]
    if parameters is not None:
        raise RuntimeError("out of order")
    return {"grad_norm": torch.stack(norms).norm().item()}
'''


def schema(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((SCHEMAS / f"{name}.schema.json").read_text("utf-8"))
    return loaded


def document_of(name: str, ended: Ended) -> dict[str, Any]:
    """The one document on stdout, which is strict JSON and valid under the schema `name`."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    document: dict[str, Any] = json.loads(ended.stdout, parse_constant=refuse)
    validator(name).validate(document)
    return document


def validator(name: str) -> Draft202012Validator:
    """One that finds the other schemas, which a schema may refer to."""
    schemas = [(f"{other}.schema.json", Resource.from_contents(schema(other))) for other in NAMES]
    return Draft202012Validator(schema(name), registry=Registry().with_resources(schemas))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkout")
    (folder / "stats.py").write_text(COLLECTORS, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def audited(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One audit whose results are of many kinds: findings, passes, what does not apply, and an error."""
    targets = ["--target", "stats:layer_norms", "--target", "stats:stalls", "--argument", "scale=1.0"]
    probes = ["syncs_grow_with_tensors", "norm_overflows_on_finite_grads", "async_collect_synchronizes"]
    tickets = tmp_path_factory.mktemp("tickets")
    named = [word for probe in probes for word in ("--probe", probe)]
    ended = auditkit("audit", checkout, *targets, *named, "--tickets", tickets, "--json")
    assert ended.code == 1, ended.stderr
    return {**document_of("run", ended), "tickets": tickets}


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_one(name: str) -> None:
    """Each file is valid JSON Schema 2020-12, versioned, and says so of itself."""
    loaded = schema(name)
    Draft202012Validator.check_schema(loaded)
    assert loaded["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert loaded["properties"]["schema_version"] == {"const": 1}
    assert "schema_version" in loaded["required"]
    assert loaded["additionalProperties"] is False


def test_every_schema_is_checked_here() -> None:
    assert sorted(path.name for path in SCHEMAS.iterdir()) == sorted(f"{name}.schema.json" for name in NAMES)


def test_the_run_schema_requires_the_contract() -> None:
    """What DESIGN promises of `audit` and `probe run` is required, not only allowed."""
    loaded = schema("run")
    parts = loaded["$defs"]
    assert set(loaded["required"]) >= {"schema_version", "run", "results", "summary"}
    assert set(parts["run"]["required"]) >= {
        "id", "checkout", "revision", "dirty", "python", "torch", "device", "device_name",
    }  # fmt: skip
    assert set(parts["result"]["required"]) >= {
        "probe", "probe_version", "target", "outcome", "severity", "evidence", "message", "fingerprint",
        "ticket", "location", "measurements",
    }  # fmt: skip
    assert set(parts["location"]["required"]) == {"file", "line", "function"}
    assert set(parts["measurement"]["required"]) >= {"name", "value", "unit", "case"}
    assert set(loaded["properties"]["summary"]["required"]) == {outcome.value for outcome in Outcome}


def test_the_schemas_name_the_words_of_the_model() -> None:
    """A new reason, contract or status is in the schema, or this fails."""
    result, target = schema("run")["$defs"]["result"]["properties"], schema("run")["$defs"]["target"]["properties"]
    ticket = schema("tickets")["$defs"]["ticket"]["properties"]
    assert result["outcome"]["enum"] == list(Outcome)
    assert result["reason"]["enum"] == [*Reason, None]
    assert result["severity"]["enum"] == [*Severity, None]
    assert result["evidence"]["enum"] == [*Evidence, None]
    assert target["contract"]["enum"] == [*Contract, None]
    assert target["takes"]["enum"] == [*Takes, None]
    assert ticket["status"]["enum"] == [*Status, None]
    assert schema("probes")["$defs"]["probe"]["properties"]["instrument"]["enum"] == list(INSTRUMENTS)


def test_an_audit_is_valid(audited: dict[str, Any]) -> None:
    """A finding, what does not apply and what could not be fed, all in one document."""
    outcomes = {(result["target"].split(":")[1], result["outcome"]) for result in audited["results"]}
    assert outcomes == {
        ("layer_norms", "reproduced"),
        ("layer_norms", "not_applicable"),
        ("stalls", "error"),
    }
    assert sum(audited["summary"].values()) == len(audited["results"]) == 6
    assert [target["call"] for target in audited["targets"]] == ["stats:layer_norms", "stats:stalls"]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("run", "revision"), "HEAD"),
        (("results", 0, "outcome"), "passed"),
        (("results", 0, "severity"), "high"),
        (("results", 0, "measurements", 0, "value"), [1]),
        (("results", 0, "extra"), 1),
        (("summary", "skipped"), 0),
        (("schema_version",), 2),
    ],
    ids=str,
)
def test_a_wrong_document_is_refused(audited: dict[str, Any], place: tuple[Any, ...], value: object) -> None:
    """The schema can fail: one wrong word, type or key is enough."""
    document = copy.deepcopy({key: part for key, part in audited.items() if key != "tickets"})
    inner: Any = document
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    with pytest.raises(ValidationError):
        Draft202012Validator(schema("run")).validate(document)


def test_a_finding_has_a_severity_and_nothing_else_has(audited: dict[str, Any]) -> None:
    document = copy.deepcopy({key: part for key, part in audited.items() if key != "tickets"})
    for result in document["results"]:
        result["severity"] = None if result["outcome"] == "reproduced" else "P1"
        errors = list(Draft202012Validator(schema("run")).iter_errors(document))
        assert errors != []
        result["severity"] = "P1" if result["outcome"] == "reproduced" else None


def test_probe_run_is_valid(checkout: Path) -> None:
    """Also where nothing could be loaded."""
    words = ["probe", "run", "syncs_grow_with_tensors", "--checkout", checkout, "--json", "--target"]
    ended = auditkit(*words, "stats:layer_norms", "--device", "cpu")
    assert document_of("run", ended)["run"]["device"] == "cpu"
    missing = document_of("run", auditkit(*words, "stats:no_such_function"))
    assert missing["summary"]["error"] == 1


def test_tickets_are_valid(audited: dict[str, Any], tmp_path: Path) -> None:
    """Filed, hand-written, unreadable and unknown words; the list and a single one."""
    filed = document_of("tickets", auditkit("ticket", "list", "--tickets", audited["tickets"], "--json"))
    assert {ticket["id"] for ticket in filed["tickets"]} == {
        result["ticket"] for result in audited["results"] if result["ticket"]
    }
    put(tmp_path, "B7-PT-01.md", ticket_text("B7-PT-01", status="`half-done`", severity="`urgent`"))
    put(tmp_path, "B7-PT-02.md", b"# Finding Ticket: caf\xe9\n")
    listed = document_of("tickets", auditkit("ticket", "list", "--tickets", tmp_path, "--json"))
    assert [(ticket["status"], ticket["severity"]) for ticket in listed["tickets"]] == [(None, None)]
    assert [broken["path"] for broken in listed["broken"]] == ["B7-PT-02.md"]
    shown = document_of("tickets", auditkit("ticket", "show", "B7-PT-01", "--tickets", tmp_path, "--json"))
    assert shown["tickets"][0]["text"].startswith("# Finding Ticket: ")


def test_next_is_valid(tmp_path: Path) -> None:
    put(tmp_path, "B7-PT-01.md", ticket_text("B7-PT-01", severity="`urgent`"))
    chosen = document_of("next", auditkit("ticket", "next", "--tickets", tmp_path, "--json"))
    assert [(ticket["id"], ticket["severity"]) for ticket in chosen["tickets"]] == [("B7-PT-01", None)]


def test_boards_searches_and_errors_are_valid(tmp_path: Path) -> None:
    put(tmp_path, "B7-PT-01.md", ticket_text("B7-PT-01", status="`half-done`", severity="`urgent`"))
    (column,) = document_of("board", auditkit("ticket", "board", "--tickets", tmp_path, "--json"))["columns"]
    assert (column["status"], column["tickets"][0]["severity"]) == ("half-done", None)
    words = ["ticket", "search", "squares", "--json", "--tickets"]
    assert document_of("search", auditkit(*words, tmp_path))["count"] == 1
    put(tmp_path, "auditkit.yaml", "tickets: [")
    told = document_of("error", auditkit("ticket", "list", "--json", cwd=tmp_path))
    assert (told["location"]["path"], told["exit_code"]) == ("auditkit.yaml", 2)


def test_lint_is_valid(tmp_path: Path) -> None:
    """Findings of a page and of a file that is none, and what --fix changed."""
    put(tmp_path, "batch7/B7-PT-01.md", ticket_text("B7-PT-01", status="`Wont fix`"))
    put(tmp_path, "batch7/B7-PT-02.md", b"# Finding Ticket: caf\xe9\n")
    ended = auditkit("ticket", "lint", "--tickets", tmp_path, "--fix", "--json")
    document = document_of("lint", ended)
    assert (ended.code, document["summary"]["tickets"], document["summary"]["broken"]) == (2, 1, 1)
    assert [change["rule"] for change in document["changes"]] == ["TK011", "TK042"]
    assert {"TK000", "TK006", "TK060"} <= {finding["rule"] for finding in document["findings"]}


def test_probes_are_valid() -> None:
    listed = document_of("probes", auditkit("probe", "list", "--json"))["probes"]
    assert {probe["id"] for probe in listed} == {
        path.stem for path in (ROOT / "probes").glob("*.py") if not path.name.startswith("_")
    }
    shown = document_of("probes", auditkit("probe", "show", listed[0]["id"], "--json"))
    assert shown["probe"] == listed[0]


def test_a_new_probe_is_valid(tmp_path: Path) -> None:
    """The files that were written are named, the probe first."""
    document = document_of("probe_new", auditkit("probe", "new", "norm_is_cut_off", "--json", cwd=tmp_path))
    assert all((tmp_path / name).is_file() for name in document["files"])
    assert (document["probe"], document["files"][0]) == ("norm_is_cut_off", "probes/norm_is_cut_off.py")


def test_doctor_is_valid(tmp_path: Path) -> None:
    """Every instrument on every device has a line or why not: four on three, graphs on two, steps on one."""
    instruments = document_of("doctor", auditkit("doctor", "--json", cwd=tmp_path))["instruments"]
    assert len({(state["instrument"], state["device"]) for state in instruments}) == 15
    assert all(state["works"] or state["message"] for state in instruments)


def test_init_is_valid(checkout: Path, tmp_path: Path) -> None:
    ended = auditkit("init", checkout, "--output", tmp_path / "auditkit.yaml", "--json")
    document = document_of("init", ended)
    assert Path(document["path"]).is_file()
    assert {(entry["call"], entry["works"]) for entry in document["candidates"]} == {
        ("stats:layer_norms", True),
        ("stats:stalls", False),
    }


def test_changes_are_valid(tmp_path: Path) -> None:
    """Every command that writes one ticket prints the same kind of document, whether it changed something or not."""
    text = ticket_text("B7-PT-01", extra="\n## Cross-Review\n\n**Verdict:** ENDORSE\n")
    put(tmp_path, "tickets/batch7/B7-PT-01.md", text)
    commands: list[tuple[list[str], set[str]]] = [
        (["edit", "B7-PT-01", "severity", "P1"], {"before", "after"}),
        (["edit", "B7-PT-01", "verified", "all"], {"before", "after"}),
        (["assign", "B7-PT-01", "Kim"], set()),
        (["review", "B7-PT-01", "--verdict", "refine", "--reviewer", "drl", "--severity", "P3"], set()),
        (["sign-off", "B7-PT-01"], set()),
        (["status", "B7-PT-01", "investigating"], {"missing"}),
        (["resolve", "B7-PT-01", "--as", "wont-fix", "--text", "Only in a demo."], {"missing"}),
        (["assign", "B7-PT-01", "Kim"], set()),
    ]
    told = []
    for words, more in commands:
        document = document_of("ticket_change", auditkit("ticket", *words, "--json", cwd=tmp_path))
        assert set(document) == {"schema_version", "id", "path", "changed", "ticket"} | more
        assert (tmp_path / document["path"]).is_file()
        told.append((document["changed"], document["ticket"]["status"]))
    assert told == [*[(True, "open")] * 5, (True, "investigating"), (True, "wont-fix"), (False, "wont-fix")]


def test_links_and_numbers_are_valid(tmp_path: Path) -> None:
    for number in (1, 2):
        put(tmp_path, f"tickets/B7-PT-0{number}.md", ticket_text(f"B7-PT-0{number}"))
    ended = auditkit("ticket", "link", "B7-PT-01", "blocks", "B7-PT-02", "--json", cwd=tmp_path)
    linked = document_of("ticket_link", ended)
    assert [ticket["related"][0]["kind"] for ticket in linked["tickets"]] == ["blocks", "blocked-by"]
    moved = document_of("ticket_renumber", auditkit("ticket", "renumber", "B7-PT-01", "--json", cwd=tmp_path))
    assert (moved["old"], moved["id"], moved["references"]) == ("B7-PT-01", "B7-PT-03", ["tickets/B7-PT-02.md"])


def test_documents_of_a_days_work_are_valid(tmp_path: Path) -> None:
    for number in (1, 2):
        put(tmp_path, f"tickets/B7-PT-0{number}.md", ticket_text(f"B7-PT-0{number}"))
    git(tmp_path, "init", "-q", "--template=")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "fixes B7-PT-02, refs B7-PT-01")

    def run(*words: str) -> Ended:
        return auditkit("ticket", *words, "--json", cwd=tmp_path)

    both = ("B7-PT-01", "B7-PT-02")
    fields = ("labels=a,b", "due=2026-12-01", "Team=x", "--new-row")
    made = document_of("ticket_changes", run("set", *both, *fields, "--yes"))
    assert (made["changed"], made["tickets"][0]["ticket"]["labels"]) == (2, ["a", "b"])
    assert len(document_of("ticket_undo", run("undo"))["files"]) == 2
    said = document_of("ticket_change", run("comment", "B7-PT-01", "seen", "--by", "ada"))
    assert [comment["text"] for comment in said["ticket"]["comments"]] == ["seen"]
    log = document_of("ticket_log", run("log", "B7-PT-01"))
    assert [entry["changes"] for entry in log["entries"]] == [["created: P2, open"], ["comment by ada"]]
    named = document_of("ticket_from_commits", run("from-commits", "HEAD"))
    assert [(one["id"], one["to"], one["changed"]) for one in named["tickets"]] == [
        ("B7-PT-02", "in-review", False),
        ("B7-PT-01", None, False),
    ]


def test_new_and_imported_tickets_are_valid(checkout: Path, tmp_path: Path) -> None:
    words = ("ticket", "new", "--agent", "pytorch", "--json")
    made = document_of("ticket_new", auditkit(*words, "--title", "norm overflows", cwd=tmp_path))
    assert (made["id"], made["ticket"]["title"]) == ("B1-PT-01", "norm overflows")
    probe = ("--probe", "norm_overflows_on_finite_grads", "--checkout", checkout, "--argument", "scale=1.0", "--target")
    filed = document_of("ticket_new", auditkit(*words, *probe, "stats:layer_norms", cwd=tmp_path))
    assert {one["action"] for one in filed["filed"]} == {"created"}
    assert filed["id"] == filed["filed"][0]["id"]
    nothing = document_of("ticket_new", auditkit(*words, *probe, "stats:no_such_function", cwd=tmp_path))
    assert (nothing["id"], nothing["filed"]) == (None, [])
    put(tmp_path, "old/broken/B7-PT-09.md", b"# Finding Ticket: caf\xe9\n")
    put(tmp_path, "old/B7-PT-08.md", ticket_text("B7-PT-08"))
    put(tmp_path, "old/notes.md", "# Notes\n")
    read = document_of("ticket_import", auditkit("ticket", "import", "old", "--json", cwd=tmp_path))
    assert [len(read[kind]) for kind in ("tickets", "broken", "pages", "copied")] == [1, 1, 1, 0]
    (tmp_path / "old/broken/B7-PT-09.md").unlink()
    copied = document_of("ticket_import", auditkit("ticket", "import", "old", "--copy", "--json", cwd=tmp_path))
    assert [Path(one["to"]).name for one in copied["copied"]] == ["B7-PT-08.md"]


def test_a_bisection_is_valid(tmp_path: Path) -> None:
    """Of two commits of which the second reads in a loop; reading the source needs no torch."""
    body = "import torch\n\n\ndef norm(grads):\n    return {}\n"
    for number, text in enumerate(["torch.stack([g.norm() for g in grads])", "sum(g.norm().item() for g in grads)"]):
        put(tmp_path, "stats.py", body.format(text))
        git = ["git", "-C", str(tmp_path), "-c", "user.name=A", "-c", "user.email=a@example.org"]
        for words in (["init", "--quiet"], ["add", "stats.py"], ["commit", "--quiet", "-m", str(number)]):
            subprocess.run([*git, *words], check=True)
    put(tmp_path, "tickets/B7-PT-01.md", ticket_text("B7-PT-01", fingerprint="sync_in_loop/1/stats:norm"))
    words = ("bisect", "B7-PT-01", "--good", "HEAD~1", "--bad", "HEAD", "--json")
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    document = document_of("bisect", auditkit(*words, cwd=tmp_path, environment=cache))
    assert (document["first"], document["change"]) == (document["newer"], "reproduced")


def test_reports_are_valid(audited: dict[str, Any], tmp_path: Path) -> None:
    """Of a run with findings, an error and what does not apply; of the tickets that it filed, and a broken one."""
    run = {key: part for key, part in audited.items() if key != "tickets"}
    saved = put(tmp_path, "run.json", json.dumps(run))
    tickets = ("--tickets", audited["tickets"], "--json")
    ended = auditkit("report", "audit", "--run", saved, *tickets)
    document = document_of("report_audit", ended)
    labels = {item["label"] for section in document["sections"] for item in section["items"]}
    assert (ended.code, labels >= {"MEDIUM", "ERROR", "NOTE"}) == (0, True)
    assert {issue["ticket"]["status"] for issue in document["issues"]} == {"open"}
    code = document_of("report_code_audit", auditkit("report", "code-audit", "--run", saved, *tickets))
    assert {entry["kind"] for entry in code["findings"]} == {"finding", "not answered"}
    batch = document_of("report_batch", auditkit("report", "batch", *tickets))
    summary = document_of("report_summary", auditkit("report", "summary", *tickets))
    assert batch["total"] == summary["total"] == len(document["issues"]) > 0
    put(tmp_path, "tickets/B7-PT-02.md", b"# Finding Ticket: caf\xe9\n")
    broken = document_of("report_summary", auditkit("report", "summary", "--json", cwd=tmp_path))
    assert (broken["total"], len(broken["broken"])) == (0, 1)


@pytest.mark.parametrize(
    "change", [{"changed": 1}, {"before": "x"}, {"id": "B7"}, {"extra": 1}, {"missing": [1]}, {"ticket": {}}], ids=str
)
def test_a_wrong_change_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    put(tmp_path, "tickets/B7-PT-01.md", ticket_text())
    document = document_of("ticket_change", auditkit("ticket", "assign", "B7-PT-01", "Kim", "--json", cwd=tmp_path))
    with pytest.raises(ValidationError):
        validator("ticket_change").validate({**document, **change})
