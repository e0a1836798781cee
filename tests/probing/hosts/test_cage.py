"""The cage by each of its engines: what a target finds in it, that it answers as without, and who may leave it off."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditkit.errors import BadInputError
from auditkit.model.enums import CageChoice, Outcome, Reason
from auditkit.model.runs.run import Run
from auditkit.model.runs.target import Target
from auditkit.probing.hosts import cage, fork_servers
from auditkit.probing.hosts.sandbox import Setting
from auditkit.store.config.config import Config
from auditkit.workflows.audit.audit import AuditRequest, audit
from auditkit.workflows.audit.run_options import RunOptions
from tests.filing_helpers import put
from tests.probing_helpers import OVERFLOW
from tests.second_interpreter import make_interpreter

pytestmark = pytest.mark.process

COLLECTOR = """
import os, socket


def tried(what):
    try:
        what()
        return "yes"
    except OSError as error:
        return "no"


def told():
    def write(path):
        open(path, "w").close()

    yield "secret", tried(lambda: open(FOLDER + "/secret").close())
    yield "variable", "yes" if "SECRET_TOKEN" in os.environ else "no"
    yield "network", tried(lambda: socket.create_connection(("127.0.0.1", PORT), 1).close())
    yield "outside", tried(lambda: write(FOLDER + "/written"))
    yield "device", tried(lambda: open("/dev/full").close())
    yield "scratch", tried(lambda: write(os.environ["TMPDIR"] + "/written"))
    yield "copy", tried(lambda: write(__file__ + ".written"))


def tells(gradients):
    raise RuntimeError("it saw " + " ".join("=".join(each) for each in told()))


def norm(gradients):
    return sum(float(g.pow(2).sum()) for g in gradients) ** 0.5


def reads(gradients):
    open(FOLDER + "/secret").close()
    return norm(gradients)


def fills(gradients):
    import time

    for number in range(40):
        with open(f"{__file__}.{number}", "wb") as file:
            file.write(bytes(1 << 20))
    time.sleep(30)
"""
START = "try:\n    open({0!r}, 'a').write('x')\nexcept OSError:\n    pass\n"


@pytest.fixture(params=cage.ENGINES)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Each engine that works here, as the only one."""
    monkeypatch.setenv(cage.FORCED, request.param)
    found = cage.engine_of(CageChoice.AUTO)
    if not found.name:
        pytest.skip("; ".join(found.lacks))
    yield found.describe()
    fork_servers.end_servers()


@pytest.fixture
def trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A checkout beside a secret, with a variable, and somebody who listens on this machine."""
    monkeypatch.setenv("SECRET_TOKEN", "abc")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    put(tmp_path, "secret", "abc")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        text = COLLECTOR.replace("FOLDER", repr(str(tmp_path))).replace("PORT", str(listener.getsockname()[1]))
        yield put(tmp_path, "trainer/stats.py", text).parent


def ask(trainer: Path, name: str, options: RunOptions) -> Run:
    return audit(AuditRequest(str(trainer), (options,), (Target(f"stats:{name}"),), (OVERFLOW,)))


def test_a_target_sees_its_checkout_and_nothing_else(trainer: Path, engine: str) -> None:
    """Beside the control, in which it sees all but the variable, which no worker is ever given."""
    kept = "secret=no variable=no network=no outside=no device=no scratch=yes copy=yes"
    (result,) = ask(trainer, "tells", RunOptions()).results
    assert f"it saw {kept}" in result.message
    (result,) = ask(trainer, "tells", RunOptions(cage=CageChoice.OFF)).results
    assert f"it saw {kept.replace('no', 'yes').replace('variable=yes', 'variable=no')}" in result.message


def test_a_run_says_what_held_it_and_answers_as_without(trainer: Path, engine: str) -> None:
    caged, free = (ask(trainer, "norm", RunOptions(cage=choice)) for choice in (CageChoice.REQUIRE, CageChoice.OFF))
    assert (caged.environment.cage, free.environment.cage) == (engine, "none")
    (one,), (other,) = caged.results, free.results
    assert one.outcome is Outcome.REPRODUCED
    assert (one.message, one.location, one.measurements) == (other.message, other.location, other.measurements)


def test_what_the_cage_denied_is_said_and_can_be_shown(trainer: Path, engine: str) -> None:
    (denied,) = ask(trainer, "reads", RunOptions()).results
    assert f"the cage does not show {trainer.parent}/secret; --cage-read PATH shows more" in denied.message
    (shown,) = ask(trainer, "reads", RunOptions(cage_read=(trainer.parent / "secret",))).results
    assert shown.outcome is Outcome.REPRODUCED


def test_a_disk_is_not_filled(trainer: Path, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cage, "_LARGEST_SCRATCH_BYTES", 8 << 20)
    (result,) = ask(trainer, "fills", RunOptions(time_limit_s=20.0)).results
    assert (result.outcome, result.reason) == (Outcome.ERROR, Reason.NO_MEMORY)
    assert "it wrote more than the cage lets it" in result.message


@pytest.mark.parametrize("is_of_checkout", [True, False])
def test_an_interpreters_start_files_run_in_the_cage_only(trainer: Path, engine: str, is_of_checkout: bool) -> None:
    """One that came with the checkout, in `.venv`, and one that has installed something that starts with it."""
    mark = trainer.parent / "mark"
    python = make_interpreter(
        (trainer / ".venv") if is_of_checkout else trainer.parent / "env", START.format(str(mark))
    )
    ask(trainer, "norm", RunOptions(python=str(python), cage=CageChoice.AUTO))
    assert not mark.exists()
    ask(trainer, "norm", RunOptions(python=str(python), cage=CageChoice.OFF))
    assert mark.exists()


def test_require_refuses_where_none_works(trainer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cage.FORCED, "none")
    with pytest.raises(BadInputError, match="no cage works here") as refused:
        ask(trainer, "norm", RunOptions(cage=CageChoice.REQUIRE))
    assert refused.value.exit_code == 2
    assert ask(trainer, "norm", RunOptions()).environment.cage == "none"


@pytest.mark.parametrize(
    ("said", "by_checkout", "by_user", "meant"),
    [
        (None, "off", "off", ("auto", "off")),
        (None, "require", "require", ("require", "require")),
        ("off", "auto", "require", ("auto", "off")),
        ("require", "off", "off", ("require", "require")),
    ],
)
def test_a_checkouts_file_can_only_make_it_stricter(
    tmp_path: Path, said: str | None, by_checkout: str, by_user: str, meant: tuple[str, str]
) -> None:
    checkout = put(tmp_path, "trainer/auditkit.yaml", "").parent
    files = ((checkout / "auditkit.yaml", by_checkout), (tmp_path / "auditkit.yaml", by_user))
    choices = tuple(
        RunOptions(Config(path=path, cage=CageChoice(word)), cage=CageChoice(said) if said else None).cage_for(checkout)
        for path, word in files
    )
    assert choices == meant


def test_an_interpreter_in_the_checkout_is_audited_but_for_the_one_that_runs_this(tmp_path: Path) -> None:
    """A project's own `.venv` with auditkit in it: its fork server needs no cage for each copy of the project."""
    assert not Setting(Path(sys.prefix), sys.executable, ()).is_interpreter_audited
    assert Setting(tmp_path, str(tmp_path / ".venv" / "bin" / "python"), ()).is_interpreter_audited
    (tmp_path / ".venv").symlink_to(sys.prefix)
    assert Setting(tmp_path, str(tmp_path / ".venv" / "bin" / "python"), ()).is_interpreter_audited
