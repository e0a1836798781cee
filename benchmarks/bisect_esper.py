"""Bisect one finding through a public repository's history, forwards and backwards, and write the page.

    git clone https://github.com/tachyon-beep/esper-lite
    python benchmarks/bisect_esper.py esper-lite --python PYTHON

PYTHON needs torch, torchvision, pydantic, psutil, rich, yaml and textual.
Writes benchmarks/results/bisect_esper.json and docs/evidence/bisect-esper.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "bisect_esper.json"
PAGE = ROOT / "docs" / "evidence" / "bisect-esper.md"

PROBE = "norm_overflows_on_finite_grads"
TICKET = (
    "ticket", "new", "--title", "compute_grad_norm_surrogate overflows", "--severity", "P1", "--agent", "pytorch",
    "--batch", "7", "--file", "src/esper/simic/telemetry/emitters.py", "--function", "compute_grad_norm_surrogate",
)  # fmt: skip
_KNOWN = re.compile(r"^(  \w{12}  )(.*?) \(known\) *", re.MULTILINE)
SEARCHES = (
    ("Since when is it gone?", "874190c0", "874190c0~150"),
    ("Since when was it there?", "0ee3a001", "874190c0~1"),
)


def run(words: tuple[str, ...], folder: Path) -> str:
    """What the command prints. Raises SystemExit where it ends with anything but 0."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder / "cache"), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "auditkit", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def search(good: str, bad: str, folder: Path, python: str) -> dict[str, Any]:
    """The JSON document of one search, and what the same command prints when everything is known."""
    shown = ("bisect", "B7-PT-01", "--probe", PROBE, "--checkout", "esper-lite", "--good", good, "--bad", bad)
    words = (*shown, "--python", python)
    document = json.loads(run((*words, "--json", "--fresh"), folder))
    return {"command": "auditkit " + " ".join(shown), "document": document, "text": run(words, folder)}


def page(found: list[dict[str, Any]], torch: str) -> str:
    parts = [
        "# When a finding came, and when it went",
        f"Written by `benchmarks/bisect_esper.py` on tachyon-beep/esper-lite with torch {torch}, no GPU: measured on\n"
        "the CPU. The ticket is written by hand; its Location names the file and the function.",
    ]
    for (title, _, _), one in zip(SEARCHES, found, strict=True):
        document = one["document"]
        fresh = sum(not answer["was_known"] for answer in document["asked"])
        text = _KNOWN.sub(lambda row: f"{row[1]}{row[2]:<14}  ", one["text"])
        lines = [line for line in text.splitlines() if not line.startswith("asked ")]
        parts.append(f"## {title}")
        parts.append("```console\n$ " + one["command"] + "\n" + "\n".join(lines) + "\n```")
        absent = sum(answer["state"] == "absent" for answer in document["asked"])
        without = f"; {absent} of them have no such function, under any name" if absent else ""
        parts.append(f"Asked {fresh} of {document['commit_count'] + 1} commits{without}.")
    parts.append(
        "The second search follows the function back to the name and the module that it had before: the commit that\n"
        "brought it brought the overflow. `absent` means that no body of the checkout is at least 60 % the same."
    )
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", type=Path)
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "esper-lite").symlink_to(options.repository.resolve())
        run(TICKET, folder)
        found = [search(good, bad, folder, options.python) for _, good, bad in SEARCHES]
    torch = next(answer["torch"] for answer in found[0]["document"]["asked"] if answer["torch"])
    RESULTS.write_text(json.dumps([one["document"] for one in found], indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(found, torch), encoding="utf-8")


if __name__ == "__main__":
    main()
