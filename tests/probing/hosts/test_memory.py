"""Answers remembered: each ingredient of one, changed alone, has it asked again; what nobody can know is not kept."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from auditkit.model.enums import CageChoice, Contract, DeviceChoice, Severity
from auditkit.model.runs.probe import Policy, ProbeInfo
from auditkit.model.runs.run import ProbeResult
from auditkit.model.runs.target import Target
from auditkit.probing.hosts import memory as memory_module
from auditkit.probing.hosts.catalog import load_catalog, select
from auditkit.probing.hosts.memory import Memory
from auditkit.probing.hosts.results import TargetRun
from auditkit.probing.hosts.runner import run_target
from auditkit.probing.hosts.sandbox import Setting
from auditkit.store.listing.answers import Answers
from tests.probing_helpers import HEALTH, OVERFLOW

_STATS = """import json
import os
import torch
from pkg.helper import squares


def norm(parameters, scale=1.0):
    with open(os.path.join(os.path.dirname(__file__), "scale.json")) as file:
        factor = json.load(file)
    return (sum(squares(p.grad) for p in parameters if p.grad is not None) ** 0.5) * factor * scale


def starts_a_process(parameters):
    os.system("true")
    return norm(parameters)


def writes(parameters):
    with open("count.txt", "w") as file:
        file.write("1")
    return norm(parameters)


def asks_the_network(parameters):
    import socket
    try:
        socket.create_connection(("127.0.0.1", 9), 0.1).close()
    except OSError:
        pass
    return norm(parameters)
"""


@dataclass
class Asking:
    """One question to one collector in a checkout of its own, asked of a real worker."""

    folder: Path
    target: Target = field(default_factory=lambda: Target("pkg.stats:norm", takes=None))
    probe: ProbeInfo = field(default_factory=lambda: select(load_catalog(), [OVERFLOW])[0])
    setting: Setting = field(default_factory=lambda: Setting(Path(), sys.executable, ()))

    def __post_init__(self) -> None:
        package = self.folder / "pkg"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        (package / "stats.py").write_text(_STATS)
        (package / "helper.py").write_text("def squares(grad):\n    return grad.pow(2).sum()\n")
        (package / "scale.json").write_text("1.0")
        self.setting = replace(self.setting, checkout=self.folder, import_roots=(self.folder,))

    def run(self, fresh: bool = False, version: str = "1", **more: Any) -> TargetRun:
        setting = replace(self.setting, memory=Memory(Answers(), version, fresh), **more)
        return run_target(self.target, [self.probe], setting)

    def ask(self, **more: Any) -> ProbeResult:
        return self.run(**more).results[0]


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setattr(memory_module, "_CLOCK_NS", 0)  # the files are written a moment before the worker begins
    return tmp_path / "caches" / "auditkit" / "answers"


@pytest.fixture
def asking(tmp_path: Path, caches: Path) -> Asking:
    return Asking(tmp_path / "checkout")


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Path]:
    """A virtual environment that has what this one has; its folder of packages."""
    place = tmp_path / "venv"
    packages = place / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    packages.mkdir(parents=True)
    (place / "bin").mkdir()
    (place / "bin" / "python").symlink_to(os.path.realpath(sys.executable))
    (place / "pyvenv.cfg").write_text(f"home = {os.path.dirname(os.path.realpath(sys.executable))}\n")
    (packages / "here.pth").write_text("\n".join(path for path in sys.path if path.endswith("-packages")))
    yield packages
    memory_module.describe.cache_clear()


@pytest.mark.process
def test_each_ingredient_changed_alone_asks_again(
    asking: Asking, environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red without each of them: then the change is answered from memory. The unchanged question is remembered."""
    first = asking.ask()
    package, probe, options = asking.folder / "pkg", asking.probe, {"unused": 1}
    other_probe = tmp_path / "probe.py"
    other_probe.write_bytes(Path(probe.path).read_bytes() + b"\n# another byte\n")
    wrapper = environment.parents[2] / "bin" / "python"

    def told(change: Callable[[], object], **more: Any) -> bool:
        change()
        return asking.ask(**more).remembered

    def package_installed() -> None:
        (environment / "extra-1.0.dist-info").mkdir()
        memory_module.describe.cache_clear()

    def added(path: Path, text: str) -> Callable[[], object]:
        return lambda: path.write_text(path.read_text() + text if path.exists() else text)

    def nothing() -> None: ...

    assert not first.remembered
    again = asking.ask()
    assert again.remembered
    assert replace(again, remembered=False) == first
    asked_again = {
        "the file of the target": told(added(package / "stats.py", "# x\n")),
        "a file that it imports": told(added(package / "helper.py", "# x\n")),
        "a data file that it reads": told(added(package / "scale.json", "\n")),
        "a file that could be imported instead": told(added(asking.folder / "torch_helpers.py", "")),
        "the version of auditkit": told(nothing, version="2"),
        "the worker's own code": told(lambda: monkeypatch.setattr(memory_module, "_worker_code", lambda: "other")),
        "the environment": told(lambda: monkeypatch.setenv("TZ", "UTC+1")),
        "an option of the probe": told(nothing, options=options),
        "the device": told(nothing, device=DeviceChoice.CPU),
        "the interpreter": told(nothing, interpreter=str(wrapper)),
        "a package of the interpreter": told(package_installed, interpreter=str(wrapper)),
    }
    asking.probe = replace(probe, path=other_probe)
    asked_again["the probe's bytes"] = told(nothing)
    asking.probe = select(load_catalog(), [HEALTH])[0]
    asked_again["another probe"] = told(nothing)
    asking.probe = probe
    assert told(nothing)  # the control: everything as it was with all the changes above
    asking.target = replace(asking.target, arguments={"scale": 1.0})
    asked_again["an argument of the target"] = told(nothing)
    asking.target = replace(asking.target, arguments={}, contract=Contract.GRAD_NORM)
    asked_again["the contract"] = told(nothing)
    assert {name for name, remembered in asked_again.items() if remembered} == set()


@pytest.mark.process
def test_a_change_taken_back_is_known_and_fresh_asks_anew(asking: Asking, tmp_path: Path) -> None:
    data = asking.folder / "pkg" / "scale.json"
    assert not asking.ask().remembered
    data.write_text("2.0")
    assert not asking.ask().remembered
    data.write_text("1.0")
    assert asking.ask().remembered
    assert not asking.ask(fresh=True).remembered
    copy = Asking(tmp_path / "elsewhere" / "copy")
    assert copy.ask().remembered  # the same bytes in another place


@pytest.mark.process
def test_a_severity_of_the_users_is_applied_to_what_is_remembered(asking: Asking) -> None:
    assert asking.ask().severity is not Severity.P4
    judged = asking.ask(policy=Policy({}, {OVERFLOW: Severity.P4}))
    assert (judged.remembered, judged.severity) == (True, Severity.P4)


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("starts_a_process", "it starts processes"),
        ("writes", "it writes count.txt of the checkout"),
        ("asks_the_network", "it uses the network"),
    ],
)
def test_what_nobody_can_know_is_asked_anew_and_said(asking: Asking, name: str, why: str) -> None:
    asking.target = Target(f"pkg.stats:{name}")
    asking.setting = replace(asking.setting, cage=CageChoice.OFF)  # in one, nothing is written where it lies
    asking.run()
    again = asking.run()
    assert not again.results[0].remembered
    assert f"asked anew by every audit: {why}" in again.notes


@pytest.mark.process
def test_an_error_is_never_remembered(asking: Asking) -> None:
    asking.target = Target("pkg.stats:absent")
    outcomes = [asking.ask() for _ in range(2)]
    assert [(one.outcome.value, one.remembered) for one in outcomes] == [("error", False)] * 2


@pytest.mark.process
def test_a_file_that_changed_after_the_worker_began_is_not_known(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows which bytes were read: here the moment that counts is moved, not the file."""
    monkeypatch.setattr(memory_module, "_CLOCK_NS", 10**12)
    notes = asking.run().notes
    assert any("changed while it ran" in note for note in notes)
    assert not asking.ask().remembered


@pytest.mark.process
def test_a_damaged_entry_is_asked_again_and_mended(asking: Asking, caches: Path) -> None:
    asking.ask()
    for entry in caches.iterdir():
        entry.write_bytes(entry.read_bytes()[:-3])
    assert not asking.ask().remembered
    assert asking.ask().remembered


@pytest.mark.process
def test_an_entry_that_others_may_have_written_is_not_read(asking: Asking, caches: Path) -> None:
    asking.ask()
    for entry in caches.iterdir():
        entry.chmod(0o666)
    assert not asking.ask().remembered
    caches.chmod(0o777)
    assert Answers().folder == ""


def test_a_checkout_cannot_bring_its_answers(caches: Path, tmp_path: Path) -> None:
    memory = Memory(Answers(), "1")
    checkout = tmp_path / "checkout" / "src"
    checkout.mkdir(parents=True)
    assert not memory.lies_in(checkout)
    assert memory.lies_in(tmp_path)
    (tmp_path / ".git").mkdir()  # of the repository that both are in
    assert memory.lies_in(checkout)


def test_entries_are_whole_whoever_writes_them_at_once_and_the_oldest_make_room(caches: Path) -> None:
    texts = [bytes([65 + number]) * 50_000 for number in range(4)]
    wrong: list[bytes] = []

    def write(text: bytes) -> None:
        answers = Answers()
        for _ in range(50):
            answers.write("ab", text)
            found = answers.read("ab")
            wrong.extend([found] if found not in texts else [])

    writers = [threading.Thread(target=write, args=(text,)) for text in texts]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert wrong == []
    assert [path.name for path in caches.iterdir()] == ["ab"]
    for number in range(4):
        Answers().write(f"c{number}", os.urandom(1000))
        os.utime(caches / f"c{number}", ns=(number, number))
    Answers().read("c0")  # used last
    Answers(most_bytes=2000).write("d", b"new")
    assert {path.name for path in caches.iterdir()} == {"ab", "c0", "d"}
