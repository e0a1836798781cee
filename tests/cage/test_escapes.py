"""Every attempt of a hostile checkout succeeds without the sandbox and fails in it.

The attempts are in tests/targets/escapes/attempts.py; one process makes them all, once without and once with.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import io
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

from auditkit import sandbox
from auditkit.cli import cage
from tests.probing_helpers import TARGETS

pytestmark = pytest.mark.process

SECRET, GREETING = "the key of the door", "reached"
MEMORY_BYTES = 4 << 30
ATTEMPTS = tuple(re.findall(r"(?m)^@attempt\ndef (\w+)", (TARGETS / "escapes" / "attempts.py").read_text()))
NEEDS_RIGHTS = frozenset((
    "make_a_device_file", "type_into_a_terminal", "trace_another", "network_by_address", "network_datagram",
    "mount_a_folder", "setting_of_the_kernel", "disk_of_the_machine", "new_namespaces",
))  # fmt: skip
"""What a container, a kernel's setting or an ordinary user's rights may forbid without a sandbox, too."""


@dataclass(frozen=True)
class Outside:
    """A home, secrets, servers on loopback, a terminal and a process that waits: all of it the test's."""

    folder: Path
    places: dict[str, Any]

    def checkout(self, name: str) -> Path:
        """A new copy of the hostile checkout, with links out of it at every depth."""
        folder = self.folder.parent / name / "checkout"
        shutil.copytree(TARGETS / "escapes", folder)
        for path in ("a/b/c", "links"):
            (folder / path).mkdir(parents=True)
        (folder / "key.py").symlink_to(self.folder / "secret")
        (folder / "links" / "disk").symlink_to("/")
        (folder / "a" / "b" / "c" / "outside").symlink_to(self.folder)
        (folder / "a" / "climbs").symlink_to(os.path.relpath(self.folder, folder / "a"))
        (folder / "links" / "chain").symlink_to("../a/climbs")
        (folder / ".venv").symlink_to(self.folder)
        (folder / ".git").write_text(f"gitdir: {self.folder}\n")
        return folder


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
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
        segment = os.getpid() & 0x7FFFFFFF
        stack.callback(_remove_segment, _make_segment(segment))
        port = _serve(socket.AF_INET, ("127.0.0.1", 0), stack).getsockname()[1]
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            closed_port = unused.getsockname()[1]
        _serve(socket.AF_UNIX, str(folder / "socket"), stack)
        _serve(socket.AF_UNIX, f"\0{name}", stack)
        controlling, terminal = os.openpty()
        stack.callback(os.close, controlling)
        stack.callback(os.close, terminal)
        command, environment = ["sleep", "600"], {"SECRET": SECRET, "PATH": os.environ["PATH"]}
        victim = stack.enter_context(subprocess.Popen(command, cwd=folder, env=environment))
        stack.callback(victim.kill)
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("HOME", str(folder / "home"))
        patch.setenv("AUDITKIT_TEST_TOKEN", SECRET)
        patch.setattr(sandbox, "_memory_bytes", lambda: MEMORY_BYTES)
        yield Outside(folder, {
            "secret": str(folder / "secret"), "outside": str(folder), "victim": victim.pid, "host": os.getpid(),
            "port": port, "closed_port": closed_port, "address": _own_address(), "socket": str(folder / "socket"),
            "abstract": name, "terminal": os.ttyname(terminal), "shared": str(shared), "system": str(system),
            "memory_bytes": MEMORY_BYTES, "segment": segment,
        })  # fmt: skip


def _serve(family: int, address: Any, stack: contextlib.ExitStack) -> socket.socket:
    """Greet whoever connects, until the stack is left."""
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


def _own_address() -> str:
    """An address of this machine that is not loopback's; that one if there is no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                told = fcntl.ioctl(asking, 0x8915, struct.pack("256s", name.encode()))  # SIOCGIFADDR
                if told[20] != 127:
                    return socket.inet_ntoa(told[20:24])
    return "127.0.0.1"


def _make_segment(key: int) -> int:
    return int(ctypes.CDLL(None).shmget(key, 4096, 0o1600))


def _remove_segment(number: int) -> None:
    ctypes.CDLL(None).shmctl(number, 0, None)


@pytest.fixture(scope="module")
def without(outside: Outside) -> dict[str, list[Any]]:
    """What each attempt came to in a plain process."""
    checkout = outside.checkout("without")
    scratch = outside.folder.parent / "without" / "scratch"
    scratch.mkdir()
    _name_places(outside, checkout, str(scratch))
    ended = subprocess.run([sys.executable, str(checkout / "attempts.py")], capture_output=True, text=True, check=True)
    return dict(json.loads(ended.stdout))


@pytest.fixture(scope="module")
def with_sandbox(outside: Outside) -> dict[str, list[Any]]:
    """What each attempt came to behind the mounts of `auditkit --cage audit CHECKOUT --tickets DIR`."""
    checkout = outside.checkout("with")
    _name_places(outside, checkout, "/tmp")
    Path(outside.places["system"]).unlink(missing_ok=True)
    words = ["audit", str(checkout), "--tickets", str(checkout.parent / "tickets")]
    said = io.BytesIO()
    code = sandbox.run([sys.executable, str(checkout / "attempts.py")], cage.mounts_of(words), said)
    assert code == 0
    found = dict(json.loads(said.getvalue()))
    # What was written is looked for here, where it would have arrived.
    arrived = {
        "write_outside": (outside.folder / "written").exists(),
        "write_through_a_link": (outside.folder / "written through a link").exists(),
        "write_to_a_system_folder": Path(outside.places["system"]).exists(),
        "change_the_checkout": "# changed\n" in (checkout / "attempts.py").read_text().split("import")[-1],
    }
    for name, has_arrived in arrived.items():
        found[name] = ["out" if has_arrived else "held", ""]
    return found


def _name_places(outside: Outside, checkout: Path, scratch: str) -> None:
    places = {**outside.places, "scratch": scratch, "checkout": str(checkout)}
    (checkout / "places.json").write_text(json.dumps(places))
    for name in ("written", "written through a link"):
        (outside.folder / name).unlink(missing_ok=True)


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_an_attempt_succeeds_without_the_sandbox_and_fails_in_it(
    without: dict[str, list[Any]], with_sandbox: dict[str, list[Any]], attempt: str
) -> None:
    """The control comes first: it is what an audit of the user's own code can do by accident."""
    if attempt in NEEDS_RIGHTS and without[attempt][0] == "held":
        pytest.skip(f"forbidden here without a sandbox, too: {without[attempt][1]}")
    assert (without[attempt][0], with_sandbox[attempt][0]) == ("out", "held"), with_sandbox[attempt]


def test_every_attempt_was_made(without: dict[str, list[Any]], with_sandbox: dict[str, list[Any]]) -> None:
    assert without.keys() == with_sandbox.keys() == set(ATTEMPTS)
