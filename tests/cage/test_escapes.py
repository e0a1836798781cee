"""Thirty ways out: each is seen to lead out without the cage, and not to with it, by each engine that works here."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from auditkit.model.enums import CageChoice
from auditkit.probing.checkouts.checkout import parse_checkout
from auditkit.probing.checkouts.copies import open_copy
from auditkit.probing.hosts import cage
from tests.cage.engines import NONE, engine_name
from tests.probing_helpers import OVERFLOW, TARGETS, outcomes, run_probes

__all__ = ["engine_name"]

pytestmark = pytest.mark.process

SECRET, GREETING = "the key of the house", "reached"
MEMORY_BYTES, SCRATCH_BYTES = 6 << 30, 32 << 20
ATTEMPTS = tuple(re.findall(r"(?m)^@attempt\ndef (\w+)", (TARGETS / "escapes" / "attempts.py").read_text()))
NEEDS_MORE = ("make_a_device_file", "type_into_a_terminal", "trace_another", "trace_its_own_supervisor",
              "network_by_address", "network_datagram")  # fmt: skip
"""What a container, a kernel's setting or a machine without a network may forbid to everybody."""
HELD_BY_THE_HOST = ("secret_of_the_environment",)
NOT_HELD = {
    "bubblewrap": {},
    "landlock": {"shared_memory_of_others": "/dev/shm"},
}
"""By engine what leads out, and the words with which `doctor` and every run say so."""


@dataclass(frozen=True)
class House:
    """What is outside: a home, secrets, servers on loopback, a terminal, a process that waits; all of it the test's."""

    folder: Path
    home: Path
    victim: int
    ports: tuple[int, int]
    abstract: str
    terminal: str
    shared: Path
    system: Path

    def places(self, scratch: str, checkout: Path) -> dict[str, Any]:
        return {
            "secret": str(self.folder / "secret"), "outside": str(self.folder), "victim": self.victim,
            "host": os.getpid(), "port": self.ports[0], "closed_port": self.ports[1], "address": own_address(),
            "socket": str(self.folder / "socket"), "abstract": self.abstract, "terminal": self.terminal,
            "shared": str(self.shared), "system": str(self.system), "scratch": scratch, "checkout": str(checkout),
            "memory_bytes": MEMORY_BYTES,
        }  # fmt: skip


def own_address() -> str:
    """An address of this machine that is not loopback's; that where it has no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                told = fcntl.ioctl(asking, 0x8915, struct.pack("256s", name.encode()))  # SIOCGIFADDR
                if told[20] != 127:
                    return socket.inet_ntoa(told[20:24])
    return "127.0.0.1"


def serve(family: int, address: Any, stack: contextlib.ExitStack) -> socket.socket:
    """Greets who connects, until the stack is left."""
    listening = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
    listening.bind(address)
    listening.listen()

    def greet() -> None:
        with contextlib.suppress(OSError):
            while True:
                with listening.accept()[0] as connected:
                    connected.sendall(GREETING.encode())

    threading.Thread(target=greet, daemon=True).start()
    stack.callback(listening.shutdown, socket.SHUT_RDWR)
    return listening


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("outside")
    (folder / "home" / ".ssh").mkdir(parents=True)
    for path in (folder / "secret", folder / "home" / ".ssh" / "id_rsa"):
        path.write_text(SECRET)
    name = f"auditkit-escapes-{os.getpid()}"
    shared, system = Path("/dev/shm", name), Path("/var/tmp", name)
    with contextlib.ExitStack() as stack:
        stack.callback(system.unlink, missing_ok=True)
        stack.callback(shared.unlink, missing_ok=True)
        shared.write_text(SECRET)
        port = serve(socket.AF_INET, ("127.0.0.1", 0), stack).getsockname()[1]
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            closed_port = unused.getsockname()[1]
        serve(socket.AF_UNIX, str(folder / "socket"), stack)
        serve(socket.AF_UNIX, f"\0{name}", stack)
        controlling, terminal = os.openpty()
        stack.callback(os.close, controlling)
        stack.callback(os.close, terminal)
        victim = stack.enter_context(
            subprocess.Popen(["sleep", "600"], cwd=folder, env={"SECRET": SECRET, "PATH": os.environ["PATH"]})
        )
        stack.callback(victim.kill)
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("HOME", str(folder / "home"))
        patch.setenv("AUDITKIT_TEST_TOKEN", SECRET)
        ports, terminal_name = (port, closed_port), os.ttyname(terminal)
        yield House(folder, folder / "home", victim.pid, ports, name, terminal_name, shared, system)


def plain_checkout(house: House) -> Path:
    """The attempts in a folder of their own, to be run by nobody in particular."""
    folder = house.folder / "plain"
    if not folder.exists():
        shutil.copytree(TARGETS / "escapes", folder)
        (folder / "places.json").write_text(json.dumps(house.places(str(folder), folder)))
    return folder


@pytest.fixture(scope="module")
def attempts(house: House, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What each attempt came to, by engine: one worker for all of them."""

    @functools.cache
    def told(engine: str) -> dict[str, list[Any]]:
        checkout = tmp_path_factory.mktemp("checkout") / "escapes"
        shutil.copytree(TARGETS / "escapes", checkout)
        (checkout / "key.py").symlink_to(house.folder / "secret")
        scratch = str(tmp_path_factory.mktemp("scratch")) if engine == NONE else ""
        with pytest.MonkeyPatch.context() as patch, open_copy(parse_checkout(checkout), sys.executable) as opened:
            patch.setenv(cage.FORCED, engine)
            patch.setattr(cage, "_memory_bytes", lambda: MEMORY_BYTES)
            patch.setattr(cage, "_scratch_bytes", lambda: SCRATCH_BYTES)
            places = json.dumps(house.places(scratch, checkout))
            (opened.path / "places.json").write_text(places)
            choice = CageChoice.OFF if engine == NONE else CageChoice.REQUIRE
            run = run_probes(opened.path, "attempts:collect", [OVERFLOW], cage=choice)
            assert outcomes(run) == {OVERFLOW: "not_reproduced"}, run.results
            found: dict[str, list[Any]] = json.loads((opened.path / "attempts.json").read_text())
        written = ("written", "written through a link")
        found["write_outside"] = ["out" if (house.folder / written[0]).exists() else "held", ""]
        found["write_through_a_link"] = ["out" if (house.folder / written[1]).exists() else "held", ""]
        found["write_to_a_system_folder"] = ["out" if house.system.exists() else "held", ""]
        found["change_the_checkout"][0] = "out" if "# changed\n" in (checkout / "attempts.py").read_text() else "held"
        for path in (*(house.folder / name for name in written), house.system):
            path.unlink(missing_ok=True)
        return found

    return told


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_an_attempt_leads_out_without_the_cage_and_not_with_it(attempts: Any, engine_name: str, attempt: str) -> None:
    without = attempts(NONE)[attempt]
    if attempt in NEEDS_MORE and without[0] == "held":
        pytest.skip(f"not possible here without a cage either: {without[1]}")
    if attempt not in HELD_BY_THE_HOST:
        assert without[0] == "out", without
    elif without[0] == "out":
        raise AssertionError(f"the host let it out: {without}")
    if attempt in NOT_HELD[engine_name]:
        assert attempts(engine_name)[attempt][0] == "out", "it is held now: say so in docs/evidence/escapes.md"
        assert NOT_HELD[engine_name][attempt] in " ".join(cage._working(engine_name).lacks)
    else:
        assert attempts(engine_name)[attempt][0] == "held", attempts(engine_name)[attempt]


def test_every_attempt_is_asked_about(attempts: Any) -> None:
    assert set(attempts(NONE)) == set(ATTEMPTS)


def test_the_workers_environment_has_no_secrets_and_a_plain_process_has(attempts: Any, house: House) -> None:
    """The control of what the host holds without a cage, too."""
    program = "import sys, attempts; print(attempts.told(attempts.secret_of_the_environment))"
    plain = subprocess.run([sys.executable, "-c", program], cwd=plain_checkout(house), capture_output=True, text=True)
    assert plain.stdout == f"['out', '{SECRET}']\n", plain.stderr
