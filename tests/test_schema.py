"""Every --json document holds what `auditkit schema` says of it, and the schemas hold the contract."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from auditkit.model.enums import Outcome
from auditkit.model.schemas import NAMES, schema
from tests.project_files import Ended, auditkit

pytestmark = pytest.mark.acceptance

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


def document_of(name: str, ended: Ended) -> dict[str, Any]:
    """The one document on stdout, which is strict JSON and valid under the schema `name`."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    document: dict[str, Any] = json.loads(ended.stdout, parse_constant=refuse)
    validator(name).validate(document)
    return document


def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(schema(name))


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
    ended = auditkit("audit", checkout, *targets, *named, "--tickets", tickets, "--fix-time=0", "--json")
    assert ended.code == 1, ended.stderr
    return {**document_of("run", ended), "tickets": tickets}


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_one(name: str) -> None:
    """The command prints it; it is versioned and knows every key."""
    printed = json.loads(auditkit("schema", name).stdout)
    assert printed == json.loads(json.dumps(schema(name)))
    Draft202012Validator.check_schema(printed)
    (top,) = [each for each in printed["$defs"].values() if "schema_version" in each.get("properties", {})]
    assert top["properties"]["schema_version"] == {"enum": [1]}
    assert (top["additionalProperties"], "schema_version" in top["required"]) == (False, True)


def test_another_name_is_refused() -> None:
    ended = auditkit("schema", "runs")
    assert (ended.code, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error: no such document: 'runs'\nhint: did you mean run")


def test_the_run_schema_requires_the_contract() -> None:
    """What DESIGN promises of `audit` and `probe run` is required, not only allowed."""
    parts = schema("run")["$defs"]
    assert set(parts["Run"]["required"]) >= {"schema_version", "run", "results", "summary"}
    assert set(parts["RunHead"]["required"]) >= {
        "id", "checkout", "revision", "dirty", "python", "torch", "device", "device_name",
    }  # fmt: skip
    assert set(parts["ProbeResult"]["required"]) >= {
        "probe", "probe_version", "target", "outcome", "severity", "evidence", "message", "fingerprint",
        "ticket", "location", "measurements",
    }  # fmt: skip
    assert set(parts["Location"]["required"]) == {"file", "line", "function"}
    assert set(parts["Measurement"]["required"]) >= {"name", "value", "unit", "case"}
    assert parts["Outcome"]["enum"] == sorted(Outcome)


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
        (("results", 0, "outcome"), "passed"),
        (("results", 0, "severity"), "high"),
        (("results", 0, "extra"), 1),
        (("summary",), 0),
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


def test_probe_run_is_valid(checkout: Path) -> None:
    """Also where nothing could be loaded."""
    words = ["probe", "run", "syncs_grow_with_tensors", "--checkout", checkout, "--json", "--target"]
    ended = auditkit(*words, "stats:layer_norms", "--device", "cpu")
    assert document_of("run", ended)["run"]["device"] == "cpu"
    missing = document_of("run", auditkit(*words, "stats:no_such_function"))
    assert missing["summary"]["error"] == 1
