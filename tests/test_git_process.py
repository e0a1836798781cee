"""git on repositories that nobody trusts: what each of them starts with plain git, and not with ours."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from auditkit import git_process
from auditkit.errors import BadInputError
from auditkit.git_process import run_git
from auditkit.probing.checkout import git
from auditkit.probing.checkout.checkout import open_checkout, parse_checkout
from auditkit.probing.checkout.copies import open_copy
from auditkit.probing.fix.file_change import FileChange
from auditkit.probing.source.files import list_files
from auditkit.probing.source.history.changes import read_commits
from auditkit.trials.verify import _check_work_tree

pytestmark = pytest.mark.process

IDENTITY = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
MARKER = "fired"
Prepare = Callable[[Path], None]


def plain(directory: Path, *arguments: str) -> str:
    """git as anybody runs it. What it says of its end is no matter: the marker tells what it started."""
    command = ["git", "-C", str(directory), *IDENTITY, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two commits with a Python file, which has been written since with the same text."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "global"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    path = tmp_path / "repository"
    path.mkdir()
    plain(path, "init", "--quiet")
    for text in ("VALUE = 1\n", "VALUE = 2\n"):
        (path / "norms.py").write_text(text)
        plain(path, "add", ".")
        plain(path, "commit", "--quiet", "-m", text)
    return path


def program(repository: Path) -> str:
    """A program that leaves its marker."""
    path = repository.parent / "program"
    path.write_text(f"#!/bin/sh\necho $0 $@ >> {repository.parent / MARKER}\n")
    path.chmod(0o755)
    return str(path)


def fired(repository: Path) -> bool:
    """Whether a program of the repository was started since the last question."""
    marker = repository.parent / MARKER
    had = marker.exists()
    marker.unlink(missing_ok=True)
    return had


def rewrite(repository: Path) -> None:
    """The text that is committed, at another time: git has to read it to know."""
    at = time.time() + 5
    os.utime(repository / "norms.py", (at, at))


def hook(repository: Path) -> None:
    for name in ("post-checkout", "post-index-change", "reference-transaction"):
        (repository / ".git" / "hooks").mkdir(exist_ok=True)
        (repository / ".git" / "hooks" / name).symlink_to(program(repository))


def hooks_path(repository: Path) -> None:
    hook(repository)
    (repository / ".git" / "hooks").rename(repository / "hooks")
    plain(repository, "config", "core.hooksPath", str(repository / "hooks"))


def monitor(repository: Path) -> None:
    plain(repository, "config", "core.fsmonitor", program(repository))


def filtered(kind: str, name: str = "x", attributes: str = ".gitattributes", where: str = "--local") -> Prepare:
    def prepare(repository: Path) -> None:
        (repository / ".git" / "info").mkdir(exist_ok=True)
        (repository / attributes).write_text(f"*.py filter={name}\n")
        plain(repository, "add", ".")
        plain(repository, "commit", "--quiet", "-m", "attributes")
        plain(repository, "config", where, f"filter.{name}.{kind}", program(repository))
        plain(repository, "config", where, f"filter.{name}.required", "true")

    return prepare


def name_with_equals(repository: Path) -> None:
    filtered("clean", "a=b")(repository)
    text = (repository / ".git" / "config").read_text()
    (repository / ".git" / "config").write_text(f'{text}[filter "a=b"]\n\tclean = {program(repository)}\n')


def included(repository: Path) -> None:
    filtered("clean")(repository)
    text = (repository / ".git" / "config").read_text()
    (repository / ".git" / "elsewhere").write_text(text[text.index('[filter "x"]') :])
    (repository / ".git" / "config").write_text(text[: text.index('[filter "x"]')] + "[include]\n\tpath = elsewhere\n")


def in_submodule(repository: Path) -> None:
    inner = repository / "inner"
    inner.mkdir()
    plain(inner, "init", "--quiet")
    (inner / "norms.py").write_text("VALUE = 1\n")
    plain(inner, "add", ".")
    plain(inner, "commit", "--quiet", "-m", "inner")
    plain(repository, "add", "inner")
    plain(repository, "commit", "--quiet", "-m", "submodule")
    filtered("clean")(inner)
    plain(inner, "config", "filter.x.clean", program(repository))
    rewrite(inner)


def differ(key: str) -> Prepare:
    def prepare(repository: Path) -> None:
        (repository / ".gitattributes").write_text("*.py diff=x\n")
        plain(repository, "config", key, program(repository))
        (repository / "norms.py").write_text("VALUE = 3\n")

    return prepare


def signed(repository: Path) -> None:
    """A commit that says it is signed has git ask the repository's own program."""
    head = plain(repository, "cat-file", "commit", "HEAD")
    fields, _, message = head.partition("\n\n")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n abcd\n -----END PGP SIGNATURE-----"
    text = f"{fields}\n{signature}\n\n{message}\n"
    made = subprocess.run(
        ["git", "-C", str(repository), "hash-object", "-t", "commit", "-w", "--stdin"],
        input=text.encode(), capture_output=True, check=True,
    )  # fmt: skip
    plain(repository, "reset", "--quiet", "--soft", made.stdout.decode().strip())
    plain(repository, "config", "log.showSignature", "true")
    plain(repository, "config", "gpg.program", program(repository))


def partial(key: str, url: str) -> Prepare:
    """A file of HEAD is missing, and the repository says where git has to fetch it: by a program."""

    def prepare(repository: Path) -> None:
        blob = plain(repository, "rev-parse", "HEAD:norms.py")
        (repository / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
        settings = {
            "core.repositoryFormatVersion": "1", "extensions.partialClone": "evil", "remote.evil.promisor": "true",
            "remote.evil.url": url.format(program=program(repository)), "protocol.allow": "always",
            "protocol.ext.allow": "always", "protocol.file.allow": "always", "protocol.ssh.allow": "always",
        }  # fmt: skip
        for name, value in settings.items():
            plain(repository, "config", name, value)
        if key:
            plain(repository, "config", key, program(repository))

    return prepare


STATUS, DIFF, ADD = ("status",), ("diff",), ("worktree", "add", "--detach", "../tree")
TRICKS: dict[str, tuple[Prepare, tuple[str, ...]]] = {
    "hook": (hook, ADD),
    "hooks elsewhere": (hooks_path, ADD),
    "monitor": (monitor, STATUS),
    "clean filter": (filtered("clean"), STATUS),
    "smudge filter": (filtered("smudge"), ADD),
    "process filter": (filtered("process"), STATUS),
    "filter with = in its name": (name_with_equals, STATUS),
    "filter of an included file": (included, STATUS),
    "filter by info/attributes": (filtered("clean", attributes=".git/info/attributes"), STATUS),
    "filter of the user's own": (filtered("smudge", where="--global"), ADD),
    "filter of a submodule": (in_submodule, STATUS),
    "external diff": (differ("diff.external"), DIFF),
    "diff driver": (differ("diff.x.command"), DIFF),
    "textconv": (differ("diff.x.textconv"), DIFF),
    "signature": (signed, ("log",)),
    "fetch by upload-pack": (partial("remote.evil.uploadpack", "{program}"), ("show", "HEAD:norms.py")),
    "fetch by ssh": (partial("core.sshCommand", "ssh://nowhere.invalid/x"), ("show", "HEAD:norms.py")),
    "fetch by ext": (partial("", "ext::{program} x"), ("show", "HEAD:norms.py")),
}


def run_all(repository: Path) -> None:
    """Everything that auditkit asks git about a checkout."""
    found = git.find_repository(repository)
    assert found is not None
    for spec in (str(repository), f"{repository}@HEAD"):
        for opened in (open_checkout, lambda spec: open_copy(parse_checkout(spec))):
            # The files of a partial clone are not here.
            with contextlib.suppress(BadInputError), opened(spec):
                pass
    list_files(repository)
    head = git.resolve_revision(found, "HEAD")
    list(read_commits(found, f"{head}~1", head))
    run_git(repository, "show", "HEAD")
    run_git(repository, "diff", "HEAD")
    run_git(repository, "diff-tree", "-p", "HEAD")
    run_git(repository, "log", "-p")


@pytest.mark.parametrize("trick", TRICKS)
def test_a_repository_starts_nothing(repository: Path, trick: str) -> None:
    prepare, command = TRICKS[trick]
    prepare(repository)
    rewrite(repository)
    fired(repository)
    run_all(repository)
    assert not fired(repository)
    plain(repository, *command)
    assert fired(repository), "the known-bad control: plain git starts it"


def test_no_git_is_started_elsewhere() -> None:
    """Every list that begins with `git` is a command that overrules nothing; the control is the one that may."""
    package = Path(git_process.__file__).parent
    starting = [path.name for path in package.rglob("*.py") if '["git"' in path.read_text("utf-8")]
    assert starting == ["git_process.py"]


def test_applying_a_fix_starts_nothing(repository: Path) -> None:
    filtered("clean")(repository)
    rewrite(repository)
    fired(repository)
    (repository / "norms.py").write_text("VALUE = 3\n")
    with pytest.raises(BadInputError, match="has uncommitted changes"):
        _check_work_tree(parse_checkout(repository), [FileChange("norms.py", b"", b"")])
    assert not fired(repository)


def test_a_repository_cannot_claim_files_outside_of_its_folder(repository: Path) -> None:
    """Its index names what is copied for the audited code to read: with `core.worktree` anything of the user's."""
    (repository.parent / "key").write_text("secret")
    plain(repository, "config", "core.worktree", str(repository.parent))
    plain(repository, "--work-tree=..", "add", "../key")
    assert "key" in plain(repository, "ls-files", "--full-name", ":/").split(), "the known-bad control"
    with pytest.raises(BadInputError, match="which is outside of it") as caught, open_checkout(repository):
        pass
    assert caught.value.hint == f"git -C {repository} config --unset core.worktree"
    plain(repository, "config", "core.worktree", str(repository))
    with open_checkout(repository) as opened:
        assert opened.revision


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to somebody else")
def test_a_repository_of_somebody_else_is_refused_until_the_user_says_so(repository: Path) -> None:
    os.chown(repository, 12345, 12345)
    with pytest.raises(BadInputError, match="detected dubious ownership") as caught, open_checkout(repository):
        pass
    assert caught.value.hint == f"git config --global --add safe.directory {repository}"
    plain(repository, "config", "--global", "--add", "safe.directory", str(repository))
    with open_checkout(repository) as opened:
        assert opened.revision


def test_a_commit_is_what_its_hash_says(repository: Path) -> None:
    """A repository may say that another object is to be read in the place of one."""
    plain(repository, "replace", "HEAD:norms.py", "HEAD~1:norms.py")
    assert run_git(repository, "cat-file", "-p", "HEAD:norms.py").stdout == "VALUE = 2\n"
    assert plain(repository, "cat-file", "-p", "HEAD:norms.py") == "VALUE = 1"


def test_a_tree_with_a_way_out_is_not_checked_out(repository: Path) -> None:
    """What an archive could hold: a path that leads out of the folder. The control is a path that does not."""
    blob = bytes.fromhex(plain(repository, "rev-parse", "HEAD:norms.py"))

    def commit(path: str) -> str:
        command = ["git", "-C", str(repository), "hash-object", "-t", "tree", "-w", "--literally", "--stdin"]
        tree = subprocess.run(command, input=f"100644 {path}\0".encode() + blob, capture_output=True, check=True)
        return plain(repository, "commit-tree", "-m", path, tree.stdout.decode().strip())

    with open_checkout(f"{repository}@{commit('escaped.py')}") as opened:
        assert (opened.path / "escaped.py").exists()
        for path in ("../escaped.py", "../../escaped.py", ".git/hooks/post-checkout"):
            words = "invalid path|could not check out"
            with pytest.raises(BadInputError, match=words), open_checkout(f"{repository}@{commit(path)}"):
                pass
        assert not [*opened.path.parent.glob("escaped.py"), *opened.path.parents[1].glob("escaped.py")]


def test_nothing_of_ours_unpacks_an_archive() -> None:
    package = Path(git_process.__file__).parent
    texts = (path.read_text("utf-8") for path in package.rglob("*.py"))
    assert not [text for text in texts if re.search(r"\b(tarfile|zipfile|unpack_archive)\b", text)]


def test_a_pipe_that_git_reads_costs_a_limited_time(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(repository / ".gitignore")
    monkeypatch.setattr(git_process, "_TIME_LIMIT_S", 3.0)
    words = r"git status .* did not finish in .* within 3 s"
    with pytest.raises(BadInputError, match=words), open_checkout(repository):
        pass
