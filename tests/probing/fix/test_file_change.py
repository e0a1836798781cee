"""A diff that a ticket shows: every byte that it does not change stays, and what does not apply says so."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from auditkit.probing.fix.file_change import FileChange, changes_of
from auditkit.probing.fix.patches import CannotComplete

FILES = {
    "newlines": b"import torch\n\n\ndef norm(x):\n    return x.norm()\n",
    "CRLF": b"import torch\r\n\r\n\r\ndef norm(x):\r\n    return x.norm()\r\n",
    "no final newline": b"import torch\n\n\ndef norm(x):\n    return x.norm()",
    "CRLF, no final newline": b"import torch\r\n\r\n\r\ndef norm(x):\r\n    return x.norm()",
    "byte order mark": b"\xef\xbb\xbfimport torch\n\n\ndef norm(x):\n    return x.norm()\n",
    "form feed and tabs": b"import torch\n\x0c\n\ndef norm(x):\n\treturn x.norm()\n",
    "one line of another end": b"import torch\r\n\n\ndef norm(x):\n    return x.norm()\n",
}
DOUBLE = "x.double().norm()"


def change_of(before: bytes) -> FileChange:
    return FileChange("norms.py", before, before.replace(b"x.norm()", DOUBLE.encode()))


@pytest.mark.process
@pytest.mark.parametrize("before", FILES.values(), ids=FILES)
def test_git_and_we_make_the_same_of_the_diff(before: bytes, tmp_path: Path) -> None:
    """In a folder below the top, too: the paths begin there."""
    change = change_of(before)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "norms.py").write_bytes(before)
    diff = change.difference("sub/")
    assert changes_of(diff, tmp_path / "sub", "sub/") == [change]
    # A ticket is read with the line ends of text.
    assert changes_of(diff.replace("\r\n", "\n"), tmp_path / "sub", "sub/") == [change]
    subprocess.run(["git", "apply", "-"], input=diff.encode(), cwd=tmp_path, check=True)
    assert (tmp_path / "sub" / "norms.py").read_bytes() == change.after


@pytest.mark.parametrize(
    ("diff", "said"),
    [
        ("x = 1\n", "is not a unified diff"),
        ("--- a/gone.py\n+++ b/gone.py\n@@ -1 +1 @@\n-a\n+b\n", "changes gone.py, which is not there"),
        ("--- a/../norms.py\n+++ b/../norms.py\n@@ -1 +1 @@\n-a\n+b\n", "which is not there"),
        ("--- a/norms.py\n+++ b/norms.py\n@@ -5 +5 @@\n-    return 1\n+    return 2\n", "no longer applies"),
    ],
)
def test_what_does_not_apply_says_so(tmp_path: Path, diff: str, said: str) -> None:
    (tmp_path / "norms.py").write_bytes(FILES["newlines"])
    with pytest.raises(CannotComplete, match=said):
        changes_of(diff, tmp_path)
