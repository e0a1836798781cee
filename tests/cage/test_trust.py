"""What auditkit trusts of a hostile checkout: programs that it names, links, start files; every verb's refusal.

Each attack has its control: the same checkout succeeds where the user allows it, or in a plain process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from auditkit import sandbox
from auditkit.cli import cage
from auditkit.errors import BadInputError, ExitCode
from auditkit.probing.checkout.checkout import parse_checkout
from auditkit.probing.checkout.copies import open_copy
from auditkit.probing.fix.file_change import FileChange
from tests.application import COMMANDS, app
from tests.probing_helpers import OVERFLOW
from tests.project_files import ROOT

pytestmark = pytest.mark.process

NORM = "def norm(parameters):\n    return sum(p.grad.pow(2).sum() for p in parameters if p.grad is not None) ** 0.5\n"
MARKS = "open({!r}, 'a').write('x')\n"


def auditkit(
    *words: object, cwd: Path, home: Path, timeout_s: float = 120.0, **variables: str
) -> subprocess.CompletedProcess[str]:
    """The command, as a user starts it, with a home of its own."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "OMP_NUM_THREADS": "1", **variables}
    return subprocess.run(
        [sys.executable, "-P", "-m", "auditkit", *map(str, words)],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A checkout with one collector, beside a home."""
    (tmp_path / "home").mkdir()
    (tmp_path / "checkout").mkdir()
    (tmp_path / "checkout" / "stats.py").write_text(NORM)
    return tmp_path


def probe(place: Path, *words: object, before: tuple[str, ...] = (), **more: str) -> subprocess.CompletedProcess[str]:
    """One probe of that collector."""
    target = ("--target", "stats:norm", "--contract", "grad_norm", "--takes", "parameters", "--device", "cpu")
    named = ("audit", "checkout", "--probe", OVERFLOW, "--fix-time=0", *target, *words)
    return auditkit(*before, *named, cwd=place, home=place / "home", **more)


def test_a_checkouts_configuration_starts_no_program(place: Path) -> None:
    """The control: the same file starts it where the user names the file."""
    mark, script = place / "ran", place / "checkout" / "evil"
    script.write_text(f'#!/bin/sh\necho x >> {mark}\nexec {sys.executable} "$@"\n')
    script.chmod(0o755)
    (place / "checkout" / "auditkit.yaml").write_text("python: ./evil\n")
    refused = probe(place)
    assert (refused.returncode, mark.exists()) == (2, False)
    assert "may not set python" in refused.stderr
    probe(place, "--config", place / "checkout" / "auditkit.yaml")
    assert mark.exists(), "control"


def test_a_start_file_of_the_checkouts_environment_runs_only_inside(place: Path) -> None:
    """Its .venv holds a .pth file and a sitecustomize that write to the home folder."""
    environment = place / "checkout" / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (packages,) = environment.glob("lib/python3*/site-packages")
    (ours,) = Path(sys.prefix).glob("lib/python3*/site-packages")
    escapes = {name: place / "home" / name for name in ("pth", "sitecustomize", "module")}
    (packages / "own.pth").write_text(f"{ours}\nimport os; {MARKS.format(str(escapes['pth']))}")
    (packages / "sitecustomize.py").write_text(MARKS.format(str(escapes["sitecustomize"])))
    (place / "checkout" / "stats.py").write_text(
        f"try:\n    {MARKS.format(str(escapes['module']))}finally:\n    pass\n{NORM}"
    )
    caged = probe(place, before=("--cage",))
    assert caged.returncode in (0, 1, 3, 5), caged.stderr
    assert [name for name, path in escapes.items() if path.exists()] == []
    probe(place)
    assert [name for name, path in escapes.items() if path.exists()] == list(escapes), "control"


@pytest.mark.acceptance
def test_a_caged_run_says_so_writes_its_outputs_and_no_cache(place: Path) -> None:
    """The control is the run without: it says `no sandbox`, and keeps its results."""
    said = {}
    for name, before in (("caged", ("--cage",)), ("plain", ())):
        ended = probe(place, "--save", f"{name}.json", "--tickets", f"{name}-tickets", before=before)
        assert ended.returncode == 1, ended.stderr
        assert list((place / "home").rglob("results/*/*")) == [] if before else True
        (ticket,) = (place / f"{name}-tickets").rglob("B*.md")
        document = json.loads((place / f"{name}.json").read_text())
        outcomes = [(one["target"], one["outcome"], one["message"]) for one in document["results"]]
        said[name] = (
            document["run"]["sandbox"],
            "no sandbox" in ended.stdout,
            "bubblewrap" in ticket.read_text(),
            outcomes,
        )
    assert list((place / "home").rglob("results/*/*")) != [], "control"
    assert said["plain"][:3] == ("none", True, False)
    assert said["caged"][:3] == (sandbox.engine()[1], False, True)
    assert said["caged"][3] == said["plain"][3]
    refused = probe(place, "--probe", "none", "--sarif", "a.sarif", before=("--cage",))
    assert (refused.returncode, (place / "a.sarif").exists()) == (2, False)


def test_the_first_run_in_a_folder_says_once_that_its_code_runs(place: Path) -> None:
    notes = ["auditkit ran the code of" in probe(place).stderr for _ in range(2)]
    assert notes == [True, False]


def test_a_diff_does_not_write_through_a_folder_that_is_a_link(place: Path) -> None:
    """Neither into the home folder nor back; the control is the same file in a real folder."""
    (place / "home" / "linked").mkdir()
    (place / "checkout" / "real").mkdir()
    for folder in (place / "home" / "linked", place / "checkout" / "real"):
        (folder / "norms.py").write_text(NORM)
    (place / "checkout" / "package").symlink_to(place / "home" / "linked")
    with open_copy(parse_checkout(place / "checkout")) as copy:
        for file, is_real in (("real/norms.py", True), ("package/norms.py", False)):
            change = FileChange(file, NORM.encode(), b"raise SystemExit\n")
            if is_real:
                with change.put_into(copy) as opened:
                    assert (opened.path / file).read_bytes() == b"raise SystemExit\n", "control"
            else:
                with pytest.raises(BadInputError, match="link"), change.put_into(copy):
                    pass
    assert (place / "home" / "linked" / "norms.py").read_text() == NORM


@pytest.mark.parametrize("way", ["link", "linked folder", "home", "repository", "over the checkout", "over here"])
def test_an_output_that_leads_elsewhere_is_refused(place: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything runs: `--tickets` and `--save` may name places of a hostile checkout."""
    monkeypatch.setenv("HOME", str(place / "home"))
    monkeypatch.chdir(place)
    (place / "checkout" / "tickets").symlink_to(place / "home")
    (place / "checkout" / "deep").symlink_to(place / "home")
    (place / "repository" / ".git").mkdir(parents=True)
    named = {
        "link": "checkout/tickets", "linked folder": "checkout/deep/tickets", "home": "home",
        "repository": "repository", "over the checkout": ".", "over here": "..",
    }[way]  # fmt: skip
    (place / "here" / "inner").mkdir(parents=True)
    monkeypatch.chdir(place / "here" / "inner" if way == "over here" else place)
    with pytest.raises(BadInputError):
        cage.mounts_of(["audit", str(place / "checkout"), "--tickets", named])
    monkeypatch.chdir(place)
    mounts = cage.mounts_of(["audit", "checkout", "--tickets", "own"])
    assert mounts.write == [str(place / "own")], "control"


def test_a_git_file_of_the_checkout_names_no_place_that_is_shown(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder looks like a linked worktree's, and calls a folder of the user's the repository."""
    (place / "checkout" / ".git").write_text("gitdir: own\n")
    (place / "checkout" / "own").mkdir()
    (place / "checkout" / "own" / "gitdir").write_text(".git\n")
    (place / "checkout" / "own" / "commondir").write_text(f"{place / 'home'}\n")
    monkeypatch.chdir(place / "checkout")
    read = cage.mounts_of(["audit", "."]).read
    assert (read[0], [path for path in read if "home" in path]) == (str(place / "checkout"), [])


@pytest.fixture(scope="module")
def without_namespaces() -> tuple[str, ...]:
    """What starts a process that cannot make a user namespace, as in most containers."""
    program = sandbox.engine()[0]
    return (program, "--unshare-user", "--disable-userns", "--dev-bind", "/", "/", "--")


def assert_refused(ended: subprocess.CompletedProcess[str]) -> None:
    assert (ended.returncode, ended.stdout) == (ExitCode.NO_SANDBOX, ""), ended.stderr
    assert ended.stderr.startswith("error: --cage: there is no sandbox here: ")
    assert "hint: " in ended.stderr


@pytest.mark.parametrize("words", [["--cage", "audit", "checkout"], ["sweep", "run", "plan.jsonl"], ["mcp"]])
def test_a_command_ends_with_6_where_there_is_no_sandbox(
    place: Path, words: list[str], without_namespaces: tuple[str, ...]
) -> None:
    """The control is the same command without the request: it fails for another reason or runs."""
    command = [*without_namespaces, sys.executable, "-P", "-m", "auditkit", *words]
    environment = {"PATH": os.environ["PATH"], "HOME": str(place / "home"), "AUDITKIT_CAGE": "1"}
    assert_refused(subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=60))


@pytest.mark.acceptance
def test_every_verb_and_a_probe_file_end_with_6_where_there_is_no_sandbox(
    place: Path, without_namespaces: tuple[str, ...]
) -> None:
    """All probe files end with the same two lines, as tests/probes/test_specimens.py checks: one stands for them."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(place / "home")}
    auditkit = [sys.executable, "-P", "-m", "auditkit", "--cage"]
    verbs = [[*auditkit, *words] for words in COMMANDS]
    assert len(verbs) > 20
    for command in (*verbs, [sys.executable, str(ROOT / "probes" / f"{OVERFLOW}.py"), "--cage"]):
        words = [*without_namespaces, *command]
        assert_refused(subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True, timeout=60))


def test_a_probe_that_runs_alone_takes_the_option_anywhere(place: Path) -> None:
    words = ["--checkout", "checkout", "--cage", "--target", "stats:norm", "--contract", "grad_norm", "--json"]
    command = [sys.executable, str(ROOT / "probes" / f"{OVERFLOW}.py"), *words, "--takes", "parameters"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(place / "home")}
    ended = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=120)
    assert json.loads(ended.stdout)["run"]["sandbox"] == sandbox.engine()[1], ended.stderr


def test_the_users_own_settings_and_a_named_file_ask_for_the_sandbox(place: Path) -> None:
    settings = place / "home" / ".config" / "auditkit" / "auditkit.yaml"
    settings.parent.mkdir(parents=True)
    (place / "named.yaml").write_text("cage: true\n")
    held = []
    for text, words in (("cage: true\n", ()), ("cage: false\n", ()), ("", ("--config", "named.yaml"))):
        settings.write_text(text)
        # A probe that reads the source: the sandbox is the same, and no torch is imported.
        named = ("probe", "run", "public_function_unused", "--checkout", "checkout", "--json", *words)
        ended = auditkit(*named, cwd=place, home=place / "home")
        held.append(json.loads(ended.stdout)["run"]["sandbox"] != "none")
    assert held == [True, False, True]


def test_every_option_that_names_a_path_is_read_or_written() -> None:
    """An option that writes and is not on the list would name a file that the sandbox does not hold."""
    read = {
        "--checkout", "--python", "--config", "--baseline", "--against", "--run", "--from", "--file", "--test",
        "--interpreter", "--clones", "--cache", "--results", "--patch", "--plan",
    }  # fmt: skip

    def options(command: object) -> set[str]:
        below = getattr(command, "commands", {}).values()
        own = {
            name
            for parameter in getattr(command, "params", ())
            for name in parameter.opts
            if name.startswith("-") and {"DIR", "FILE", "PATH", "FOLDER"} & set((parameter.metavar or "").split("["))
        }
        return own.union(*map(options, below))

    assert options(typer.main.get_command(app)) - read - cage.OUTPUTS == set()
