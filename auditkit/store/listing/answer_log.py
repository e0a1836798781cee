"""What was asked already, line by line in a file of the user's alone: a job that was stopped goes on there."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from auditkit.store.listing.cache_folder import private_folder, read_private


class AnswerLog:
    """The answers to one question, by a key; `path` is "" where there is no place for them.

    It lies among the user's caches and never in a repository: whoever wrote that could answer in advance. A line
    that a kill cut in two is left out.
    """

    def __init__(self, kind: str, question: Mapping[str, Any]) -> None:
        folder = private_folder(kind)
        text = json.dumps(question, sort_keys=True)
        name = hashlib.sha256(text.encode()).hexdigest()[:32]
        self.path = f"{folder}/{name}.jsonl" if folder else ""
        self.known = self._read()

    def add(self, key: str, answer: Mapping[str, Any]) -> None:
        """Keep an answer; a full or read-only disk costs only the memory of it."""
        self.known[key] = dict(answer)
        if not self.path:
            return
        line = json.dumps({"key": key, "answer": dict(answer)}) + "\n"
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(self.path, flags, 0o600)
            try:
                # The newline before it ends a line that a kill cut in two.
                os.write(handle, ("\n" + line).encode())
                os.fsync(handle)
            finally:
                os.close(handle)

    def forget(self) -> None:
        """Ask everything again."""
        self.known = {}
        if self.path:
            with contextlib.suppress(OSError):
                os.unlink(self.path)

    def _read(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        try:
            data = read_private(self.path) if self.path else b""
        except OSError:
            return found
        for line in data.decode("utf-8", "replace").splitlines():
            with contextlib.suppress(ValueError, TypeError, KeyError):
                entry = json.loads(line)
                if isinstance(entry["answer"], dict):
                    found[str(entry["key"])] = entry["answer"]
        return found
