"""The result cache: each part of a key, changed alone, runs the probe again; what a worker says changes no key."""

from __future__ import annotations

import itertools
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from auditkit.model.runs.target import Target
from auditkit.probing.engine import cache as cache_module
from auditkit.probing.engine.cache import cache_for
from auditkit.probing.engine.catalog import load_catalog, select
from auditkit.probing.engine.results import TargetRun
from auditkit.probing.engine.runner import run_target
from auditkit.probing.engine.sandbox import Setting
from tests.filing_helpers import put
from tests.probing_helpers import EMPTY

pytestmark = pytest.mark.process

HONEST = """
def norm(parameters, scale=1.0):
    return sum(p.grad.double().pow(2).sum().item() for p in parameters if p.grad is not None) ** 0.5 * scale
"""
# When it is imported it puts another module into the place of the honest one, for whoever comes next.
HOSTILE = """
import os
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "honest.py"), "w") as file:
    file.write("def norm(parameters, scale=1.0):\\n    return 1.0\\n")
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "honest.py").write_text(HONEST)
    return folder


def asked(
    checkout: Path, call: str = "honest:norm", version: str = "1", fresh: bool = False, **more: object
) -> TargetRun:
    cache, _ = cache_for(checkout, version, fresh)
    setting = replace(Setting(checkout, sys.executable, (checkout,), cache=cache, time_limit_s=60.0))
    arguments = more.pop("arguments", {})
    target = Target(call, arguments=arguments)  # type: ignore[arg-type]
    return run_target(target, select(load_catalog(), [EMPTY]), replace(setting, **more))  # type: ignore[arg-type]


def was_cached(run: TargetRun) -> bool:
    assert [result.outcome.value for result in run.results] == ["not_reproduced"], run.results
    return all(result.remembered for result in run.results)


def test_the_same_bytes_run_once_and_any_change_runs_again(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: the second run of the same bytes is cached, so each further line shows its own change."""
    assert not was_cached(asked(checkout))
    assert was_cached(asked(checkout))
    assert not was_cached(asked(checkout, fresh=True))
    assert not was_cached(asked(checkout, version="2"))
    assert not was_cached(asked(checkout, arguments={"scale": 2.0}))
    (checkout / "data.json").write_text("{}")  # no import of ours sees it, but the target may read it
    assert not was_cached(asked(checkout))
    assert was_cached(asked(checkout))
    monkeypatch.setattr(cache_module, "_packages", lambda _: "another torch")
    assert not was_cached(asked(checkout))


def test_editable_code_is_read_and_linked_packages_by_their_versions(tmp_path: Path) -> None:
    site, code, linked = (tmp_path / name for name in ("env/lib/python3.11/site-packages", "code", "linked"))
    for file in (code / "own.py", linked / "torch/big.py", linked / "torch-2.dist-info/RECORD"):
        put(file.parent, file.name, "1")
    put(site, "linked.pth", f"{code}\n{linked}\n")
    digests = [cache_module._packages.__wrapped__(str(tmp_path / "env/bin/python"))]
    for file in (linked / "torch/big.py", linked / "torch-2.dist-info/RECORD", code / "own.py"):
        file.write_text("2, changed")
        digests.append(cache_module._packages.__wrapped__(str(tmp_path / "env/bin/python")))
    assert [one == other for one, other in itertools.pairwise(digests)] == [True, False, False]


def test_a_module_that_rewrites_another_one_does_not_supply_its_results(checkout: Path) -> None:
    """The results that were measured over changed files are kept by nobody; the honest module runs again."""
    (checkout / "hostile.py").write_text(HOSTILE + HONEST)
    asked(checkout, "hostile:norm")
    assert "return 1.0" in (checkout / "honest.py").read_text(), "control: the attack has worked on the shared copy"
    (checkout / "honest.py").write_text(HONEST)
    run = asked(checkout)
    assert not was_cached(run)
    assert not any("hostile" in path.read_text("utf-8") for path in cached_entries())


def test_a_cache_inside_the_checkout_or_open_to_others_is_not_used(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the same folder is used when it is the user's alone."""
    cache, is_first = cache_for(checkout, "1", False)
    assert cache is not None
    assert is_first
    assert cache_for(checkout, "1", False)[1] is False
    os.chmod(cache.folder, 0o777)
    assert cache_for(checkout, "1", False)[0] is None
    monkeypatch.setenv("XDG_CACHE_HOME", str(checkout / "cache"))
    assert cache_for(checkout, "1", False)[0] is None


def cached_entries() -> list[Path]:
    return sorted(Path(os.environ["XDG_CACHE_HOME"]).glob("auditkit/results/*/*"))
