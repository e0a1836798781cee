"""Headless Chromium for the tests of pages, spoken to over a pipe: no driver, no port and no package is needed."""

from __future__ import annotations

import base64
import functools
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

AXE = "axe-core@4.11.0"
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1",
    "--disable-background-networking", "--disable-component-update", "--no-first-run", "--remote-debugging-pipe",
)  # fmt: skip
_LIMIT_S = 60.0


@dataclass
class Browser:
    """One tab. `console` are the errors and warnings that the page said, `requests` what it asked for."""

    send: int
    receive: int
    session: str = ""
    number: int = 0
    rest: bytes = b""
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    loaded: bool = False

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """What the browser answers; raises AssertionError where it refuses."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.send, json.dumps(message).encode() + b"\0")
        while True:
            said = self._next()
            if said.get("id") == self.number:
                assert "error" not in said, said
                result: dict[str, Any] = said["result"]
                return result

    def open(self, page: Path, width: int = 1600, dark: bool = False, media: str = "screen") -> float:
        """Show a file; the seconds until it had loaded."""
        self.console, self.requests, self.loaded = [], [], False
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", media=media, features=[scheme])
        start = time.monotonic()
        self.ask("Page.navigate", url=page.resolve().as_uri())
        while not self.loaded:
            self._next()
        return time.monotonic() - start

    def value(self, script: str) -> Any:
        """What a script of ours gives; the page's own policy does not hold for it."""
        said = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in said, said
        return said["result"].get("value")

    def picture(self, file: Path, height: int, scale: float = 1, top: float = 0) -> None:
        """`height` pixels of the page from `top` on as PNG, made smaller by `scale`."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": top, "width": size["width"], "height": min(height, size["height"] - top), "scale": scale}
        data = self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
        file.write_bytes(base64.b64decode(data))

    def violations(self, axe: Path) -> list[str]:
        """What axe-core finds wrong: the rule, and the first element that breaks it."""
        self.value(axe.read_text("utf-8") + ";1")
        found = self.value(
            "axe.run(document,{resultTypes:['violations']}).then(r=>r.violations.map(v=>[v.id,v.help,v.nodes.length,v.nodes[0].html,v.nodes[0].failureSummary]))"
        )
        return [" | ".join(map(str, one)) for one in found]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            data = os.read(self.receive, 1 << 16)
            assert data, "the browser has ended"
            self.rest += data
        raw, _, self.rest = self.rest.partition(b"\0")
        said: dict[str, Any] = json.loads(raw)
        method, parameters = said.get("method"), said.get("params", {})
        if method == "Runtime.consoleAPICalled" or method == "Runtime.exceptionThrown":
            self.console.append(json.dumps(parameters)[:400])
        elif method == "Log.entryAdded":
            self.console.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Page.javascriptDialogOpening":
            self.console.append(f"dialog: {parameters['message']}")
        elif method == "Page.loadEventFired":
            self.loaded = True
        return said


@contextmanager
def browser() -> Iterator[Browser]:
    """Chromium with one empty tab; the test is skipped where there is none."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no chromium: apt-get install chromium")
    to_browser, ours_out = os.pipe()
    ours_in, from_browser = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:

        def place_pipes() -> None:
            # 3 and 4 are where it looks; both ends are moved out of the way first.
            one, two = os.dup(to_browser), os.dup(from_browser)
            os.dup2(one, 3), os.dup2(two, 4)

        process = subprocess.Popen(
            [program, *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=place_pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser), os.close(from_browser)
        try:
            tab = Browser(ours_out, ours_in)
            target = tab.ask("Target.createTarget", url="about:blank")["targetId"]
            tab.session = tab.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                tab.ask(f"{domain}.enable")
            yield tab
        finally:
            process.terminate()
            process.wait(timeout=_LIMIT_S)
            os.close(ours_out), os.close(ours_in)


@functools.cache
def axe() -> Path:
    """axe-core's script, of npm, kept among the caches of the user; the test is skipped where it cannot be had."""
    folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "auditkit-tests" / AXE
    script = folder / "axe.min.js"
    if script.is_file():
        return script
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm, which has axe-core")
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run([npm, "pack", AXE], cwd=scratch, capture_output=True, text=True, timeout=_LIMIT_S)
        packed = next(Path(scratch).glob("*.tgz"), None)
        if done.returncode or packed is None:
            pytest.skip(f"npm has no {AXE}: {done.stderr.strip()[-200:]}")
        with tarfile.open(packed) as archive:
            data = archive.extractfile("package/axe.min.js")
            assert data is not None
            folder.mkdir(parents=True, exist_ok=True)
            script.write_bytes(data.read())
    return script
