"""The verbs that run code, each one in the sandbox for real; and what they leave behind without it.

The checkout's module writes to the home folder when it is imported. The control is the same command without --cage.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auditkit import sandbox
from tests.cage.test_trust import NORM, auditkit, probe
from tests.probing_helpers import OVERFLOW
from tests.project_files import ROOT
from tests.verify_helpers import git, state_of

pytestmark = pytest.mark.process

ESCAPE = "import os\ntry:\n    open(os.path.expanduser('~/escaped'), 'a').write('x')\nexcept OSError:\n    pass\n"
FIX = """```diff
--- a/stats.py
+++ b/stats.py
@@ -6,2 +6,4 @@
 def norm(parameters):
-    return sum(p.grad.pow(2).sum() for p in parameters if p.grad is not None) ** 0.5
+    grads = [p.grad for p in parameters if p.grad is not None]
+    total = sum(g.double().pow(2).sum() for g in grads) ** 0.5
+    return total.to(sum(g.sum() for g in grads).dtype) if grads else total
```
"""


@pytest.fixture(scope="module")
def filed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A checkout in git, a home, and the ticket that a sandboxed command filed."""
    place = tmp_path_factory.mktemp("verbs")
    (place / "home").mkdir()
    (place / "checkout").mkdir()
    (place / "checkout" / "stats.py").write_text(ESCAPE + NORM)
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        git(place / "checkout", *words)
    done = probe(place, "--tickets", "tickets", before=("--cage",))
    assert done.returncode == 1, done.stderr
    ticket = place / "tickets" / "B1-PT-01.md"
    text = ticket.read_text()
    ticket.write_text(re.sub(r"(?s)## Fix\n.*?\n## ", f"## Fix\n{FIX}\n## ", text))
    yield place
    assert not (place / "home" / "escaped").exists()
    shutil.rmtree(place / "home")
    (place / "home").mkdir()
    probe(place)
    assert (place / "home" / "escaped").exists(), "control"


def sandbox_of(place: Path) -> set[str]:
    document = json.loads((place / "tickets" / "evidence" / "B1-PT-01.json").read_text())
    return {result["run"]["sandbox"] for result in document["results"]}


def caged(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return auditkit("--cage", *words, cwd=place, home=place / "home", timeout_s=240.0)


@pytest.mark.acceptance
def test_ticket_verify_runs_inside(filed: Path) -> None:
    done = caged(
        filed, "ticket", "verify", "B1-PT-01", "--checkout", "checkout", "--recommended", "--probe", OVERFLOW, "--json"
    )
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert document["verdict"] == "insufficient"  # float16 still overflows
    assert "norm_overflows_on_finite_grads still reproduces" in document["reason"]
    assert sandbox_of(filed) == {sandbox.engine()[1]}


@pytest.mark.acceptance
def test_ticket_fix_patches_a_copy_inside_and_prints_its_diff(filed: Path) -> None:
    before = (filed / "checkout" / "stats.py").read_text()
    done = caged(filed, "ticket", "fix", "B1-PT-01", "--checkout", "checkout")
    assert done.returncode == 1, done.stderr  # the ticket's fix is not sufficient
    assert "+    total = sum(g.double()" in done.stdout
    assert (filed / "checkout" / "stats.py").read_text() == before
    refused = caged(filed, "ticket", "fix", "B1-PT-01", "--checkout", "checkout", "--apply")
    assert (refused.returncode, "git apply" in refused.stderr) == (2, True)


@pytest.mark.acceptance
def test_sweep_run_gives_each_job_a_sandbox(filed: Path) -> None:
    """A job at a revision: auditkit extracts it inside."""
    text = f"checkouts: [checkout@HEAD]\ninterpreters: [{sys.executable}]\nprobes: [{OVERFLOW}]\ndevices: [cpu]\n"
    (filed / "sweep.yaml").write_text(text)
    plan = auditkit("sweep", "plan", "sweep.yaml", cwd=filed, home=filed / "home")
    (filed / "plan.jsonl").write_text(plan.stdout)
    done = caged(filed, "sweep", "run", "plan.jsonl", "--results", "swept", "--cache", "cache")
    assert done.returncode == 0, done.stderr
    runs = [json.loads(path.read_text()) for path in (filed / "swept").rglob("*.json")]
    held = [found for document in runs for found in re.findall(r'"sandbox": "([^"]*)"', json.dumps(document))]
    assert set(held) == {sandbox.engine()[1]}


@pytest.mark.acceptance
@pytest.mark.skipif(importlib.util.find_spec("mcp") is None, reason="mcp is not installed: the extra mcp")
def test_mcp_gives_each_call_a_sandbox(filed: Path) -> None:
    from mcp import Client, StdioServerParameters

    environment = {"PATH": os.environ["PATH"], "HOME": str(filed / "home"), "OMP_NUM_THREADS": "1"}
    arguments = ["-P", "-m", "auditkit", "--cage", "mcp"]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=environment, cwd=filed)

    async def ask() -> Any:
        async with Client(server) as client:
            given = {"checkout": "checkout", "targets": ["stats:norm"], "probes": [OVERFLOW], "python": sys.executable}
            audited = json.loads((await client.call_tool("audit", given)).content[0].text)
            return audited, Path(audited["result"]["whole"]).read_text()

    audited, whole = asyncio.run(asyncio.wait_for(ask(), 240))
    assert audited["exit_code"] == 1
    assert json.loads(whole)["run"]["sandbox"] == sandbox.engine()[1]


def test_no_result_of_the_cache_is_read_in_the_sandbox(tmp_path: Path) -> None:
    """The control: without the sandbox the second run reads what the first one kept."""
    (tmp_path / "home").mkdir()
    (tmp_path / "checkout").mkdir()
    (tmp_path / "checkout" / "stats.py").write_text(ESCAPE + NORM)
    mark = tmp_path / "home" / "escaped"
    ran = []
    for before in ((), (), ("--cage",)):
        done = probe(tmp_path, "--json", before=before)
        (result,) = json.loads(done.stdout)["results"]
        ran.append((mark.exists(), result["outcome"]))
        mark.unlink(missing_ok=True)
    assert ran == [(True, "reproduced"), (False, "reproduced"), (False, "reproduced")]


CARELESS = """
import os, tempfile
open("beside the command", "w").write("x")
open(os.path.join(os.path.dirname(__file__), "beside the module"), "w").write("x")
tempfile.mkdtemp()
"""


@pytest.mark.acceptance
def test_without_the_sandbox_an_audit_changes_only_its_outputs(tmp_path: Path) -> None:
    """The checkout's code writes beside itself, to its current folder, and to a temporary folder that it leaves.

    The control: a plain import of the module leaves all three. auditkit's cache is its only file in the home folder.
    """
    folders = [tmp_path / name for name in ("home", "checkout", "tmp")]
    for folder in folders:
        folder.mkdir()
    home, checkout, temporary = folders
    (checkout / "stats.py").write_text(CARELESS + NORM)
    (checkout / "link").symlink_to(home)
    (home / "kept").write_text("kept")
    before = state_of(*folders)
    words = ("--target", "stats:norm", "--probe", OVERFLOW, "--device", "cpu", "--fix-time=0")
    done = auditkit(
        "audit", "checkout", *words, "--tickets", "tickets", "--save", "run.json",
        cwd=tmp_path, home=home, TMPDIR=str(temporary),
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    cache = str(home / ".cache")
    after = {path: what for path, what in state_of(*folders).items() if not path.startswith(cache)}
    assert after == before
    assert {path.name for path in tmp_path.iterdir()} == {"home", "checkout", "tmp", "tickets", "run.json"}
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(temporary)}
    subprocess.run([sys.executable, "-c", "import stats"], cwd=checkout, env=environment, check=True)
    assert len(state_of(checkout, temporary).keys() - before.keys()) >= 3, "control"


STARTERS = ("auditkit", "probes", "templates", "tests", "benchmarks", "docs")
KINDS = (".py", ".j2", ".yml", ".md")


def test_auditkit_starts_itself_with_p_everywhere() -> None:
    """No module of the current folder stands for one of auditkit's own."""
    start = re.compile(r"""["']-m["'],\s*["']auditkit|python3?(?: -\S+)* -m auditkit\b""")
    shipped = [path for name in STARTERS for path in (ROOT / name).rglob("*")]
    files = [path for path in (*shipped, ROOT / "action.yml", ROOT / "README.md") if path.suffix in KINDS]
    texts = {path: path.read_text() for path in files}
    found = [
        (path, text[max(0, one.start() - 40) : one.end()])
        for path, text in texts.items()
        for one in start.finditer(text)
    ]
    assert len(found) >= 5
    named = ("`python -m auditkit", "re.compile(")  # the name of the module, and this search
    assert [each for each in found if '"-P"' not in each[1] and not any(name in each[1] for name in named)] == []
