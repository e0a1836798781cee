"""`auditkit ticket verify` and `claim` on the command line: what they print, their JSON, and how they end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from auditkit.cli.ticket import app
from auditkit.model.enums import Outcome
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import ProbeResult, Run
from auditkit.model.runs.target import Target
from auditkit.probing.checkouts.checkout import OpenCheckout
from auditkit.workflows.audit.measurement import environment_of
from auditkit.workflows.audit.run_options import RunOptions
from auditkit.workflows.proof import question_answers
from tests.filing_helpers import put, ticket_text
from tests.test_no_torch import HEAVY, run_watched
from tests.test_schema import validator
from tests.verify_helpers import LOOP, LOOP_PRINT, Story, git, tell_story

pytestmark = pytest.mark.process

BOUND = f"no host read in a loop <!-- probe: {LOOP} -->"
LATE = f"none below line 100 <!-- probe: {LOOP} host_read < 100 -->"
READ = (
    "1 line waits for the device inside a loop over tensors: line 7, .item() of (grad.float() * grad.float()).sum() "
    "(loop over grads)"
)


@pytest.fixture
def story(tmp_path: Path) -> Story:
    told = tell_story(tmp_path)
    told.put_ticket(BOUND)
    return told


def run(story: Story, command: str, *words: object) -> Any:
    place = ["--checkout", str(story.folder)] if command == "verify" else []
    more = [*place, "--tickets", str(story.tickets)]
    return CliRunner().invoke(app, [command, "B7-PT-01", *map(str, words), *more])


def lines(result: Any) -> list[str]:
    return [line for line in result.stdout.splitlines() if line]


def test_the_way_from_red_to_green(story: Story) -> None:
    red = run(story, "verify", "--at", story.broken)
    broken, right = story.broken[:12], story.right[:12]
    assert red.exit_code == 1
    assert lines(red)[:4] == [
        f"B7-PT-01 at {broken}",
        f"{LOOP}  train.norms:total_norm: STILL_REPRODUCED",
        "  no base: nothing says at which revision it reproduced: --base REV names one",
        f"  fix: reproduced: {READ}",
    ]
    green = run(story, "verify")
    assert green.exit_code == 0, green.stdout
    assert lines(green) == [
        f"B7-PT-01 at {right}",
        f"{LOOP}  train.norms:total_norm: PROVEN",
        f"  base {broken} (as found): reproduced: {READ}",
        "  fix: not reproduced: no tensor is read back in a loop over tensors in 1 functions of 1 files",
        "  [ ] 1  UNBOUND  by hand",
        "  [x] 2  PROVEN  no host read in a loop",
        "  [ ] 3  UNBOUND  two",
        f"1 ticked; evidence in {story.tickets}/B7-PT-01.md",
        "B7-PT-01 is open; fixed still lacks:",
        "  - the Resolution does not say what was done",
        "  - the Resolution names no commit",
        "  - not verified: by hand (line 85)",
        "  - not verified: two (line 87)",
        "  - no sign-off by pytorch",
    ]
    again = run(story, "verify")
    assert "0 ticked; nothing new to write" in again.stdout
    assert story.ticket().status_written == "open"


def test_red_again_and_vacuous_are_findings(story: Story) -> None:
    story.put_ticket(BOUND, LATE)
    assert run(story, "verify", "--base", story.broken).exit_code == 1
    assert [item.is_done for item in story.ticket().verification] == [False, True, False]
    late = run(story, "verify", "--base", story.broken, "--at", story.wrong)
    assert late.exit_code == 1
    assert "  [ ] 3  VACUOUS  none below line 100" in lines(late)
    assert "         host_read < 100: holds at the base, too: host_read is 7" in late.stdout
    assert "0 ticked, 1 taken back: red again" in late.stdout


def test_the_json_is_valid(story: Story) -> None:
    story.put_ticket(BOUND, LATE, more=f"\n## Notes\n\nonce <!-- claim: {LOOP} host_read = 3 -->\n")
    for words in (("--at", story.broken), ("--base", story.broken), ()):
        document = json.loads(run(story, "verify", "--json", *words).stdout)
        validator("ticket_verify").validate(document)
    (check,) = document["checks"]
    assert (check["fingerprint"], check["state"], check["base_is_as_found"]) == (LOOP_PRINT, "PROVEN", True)
    assert (check["base_revision"], document["revision"], document["dirty"]) == (story.broken, story.right, False)
    assert [item["state"] for item in document["items"]] == ["UNBOUND", "PROVEN", "VACUOUS"]
    assert [claim["state"] for claim in document["claims"]] == ["REFUTED"]
    assert document["missing"][0] == "the Resolution does not say what was done"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--at", "HEAD", "--checkout", "{folder}@HEAD"], 2, "both name a revision"),
        (["--at", "nothing"], 2, "has no revision 'nothing'"),
        (["--base", "nothing"], 2, "has no revision 'nothing'"),
        (["--probe", "nothing_of_ours"], 2, "nothing_of_ours"),
        (["--device", "gpu"], 2, "gpu"),
        (["--contract", "grad_norm"], 2, "describe a target"),
        (["--checkout", "{folder}/nowhere"], 2, "no such directory"),
    ],
)
def test_wrong_usage_is_one_clear_error(story: Story, words: list[str], code: int, message: str) -> None:
    told = [word.replace("{folder}", str(story.folder)) for word in words]
    before = story.text()
    command = ["verify", "B7-PT-01", "--tickets", str(story.tickets)]
    command += [] if "--checkout" in told else ["--checkout", str(story.folder)]
    result = CliRunner().invoke(app, [*command, *told])
    assert (result.exit_code, message in result.stderr) == (code, True), result.stderr
    assert story.text() == before


def test_a_target_that_cannot_be_loaded_is_no_pass(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module of the fix does not import. What a worker says of that, the commands about probes test."""

    def ask(_: RunOptions, opened: OpenCheckout, targets: list[Target], probes: list[ProbeInfo], *__: object) -> Run:
        lost = ProbeResult(probes[0].id, 1, targets[0].call, Outcome.ERROR, "no module", "", loaded=False)
        return Run("run-1", environment_of(opened.label, opened), (lost,))

    monkeypatch.setattr(question_answers, "ask", ask)
    story.put_ticket("finite <!-- probe: norm_overflows_on_finite_grads -->")
    before = story.text()
    result = run(story, "verify", "--base", story.broken)
    assert result.exit_code == 5, result.stdout
    assert "  [ ] 2  NOT_MEASURED  finite" in lines(result)
    assert story.text() == before


def test_a_box_is_bound_to_a_probe_that_is_there(story: Story) -> None:
    assert run(story, "edit", "bound", f"3={LOOP} host_read < 100").exit_code == 0
    assert [item.condition for item in story.ticket().verification] == ["", "", "host_read < 100"]
    refused = run(story, "edit", "bound", "3=sync_in_lop")
    assert (refused.exit_code, "did you mean sync_in_loop" in refused.stderr) == (2, True)
    assert run(story, "edit", "unbound", "two").exit_code == 0
    assert story.ticket().verification[2].probe == ""


def test_fixed_asks_for_a_run_at_or_after_the_commit(story: Story) -> None:
    """A proof on uncommitted files, or of an earlier commit, is not one of the fix that the Resolution names."""
    resolution = f"\n## Resolution\n\nDone in commit `{story.right}`.\n\n**Sign-off:** Approved by `pytorch`\n"
    story.put_ticket(BOUND, more=resolution)
    status = ("status", "fixed", "--checkout", story.folder)
    run(story, "verify", "--at", story.broken)
    run(story, "edit", "verified", "1")
    run(story, "edit", "verified", "3")
    run(story, "status", "investigating")
    run(story, "status", "fix-in-progress")
    run(story, "status", "in-review")
    red = run(story, *status)
    assert f"the evidence still says reproduced: {LOOP_PRINT}" in red.stderr
    git(story.folder, "checkout", "-q", story.broken)
    story.file.write_text(git(story.folder, "show", f"{story.right}:src/train/norms.py"), encoding="utf-8")
    assert run(story, "verify").exit_code == 0
    dirty = run(story, *status)
    assert (dirty.exit_code, f"no run at a commit says that it is gone: {LOOP_PRINT}" in dirty.stderr) == (2, True)
    git(story.folder, "checkout", "-q", "-f", "-b", "elsewhere")
    git(story.folder, "commit", "-q", "--allow-empty", "-m", "another fix")
    story.file.write_text("def total_norm(grads):\n    return 0.0\n", encoding="utf-8")
    git(story.folder, "commit", "-q", "-a", "-m", "another fix")
    assert run(story, "verify").exit_code == 0
    other = run(story, *status)
    assert f"no run at the fix's commit, or after it, says that it is gone: {LOOP_PRINT}" in other.stderr
    assert run(story, "verify", "--at", story.right).exit_code == 0
    done = run(story, *status)
    assert (done.exit_code, done.stdout) == (0, "B7-PT-01: in-review -> fixed\n")


MORE = """
## Memory

It takes 400MB.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put(tmp_path, "tickets/B7-PT-01.md", ticket_text(fingerprint=f"{LOOP}/1/t", extra=MORE))
    return tmp_path / "tickets"


def claim(folder: Path, *words: object) -> Any:
    return CliRunner().invoke(app, ["claim", "B7-PT-01", *map(str, words), "--tickets", str(folder)])


def test_a_claim_is_marked_listed_shown_and_taken_out(folder: Path) -> None:
    before = (folder / "B7-PT-01.md").read_bytes()
    marked = claim(folder, "400MB", f"{LOOP} norm < 3 @ n=4")
    refuted = f"line 74: REFUTED 'It takes 400MB' ({LOOP} norm < 3 @ n=4): norm is inf (n=4)"
    assert (marked.exit_code, marked.stdout) == (0, f"B7-PT-01: claim marked\n{refuted}\n")
    listed = claim(folder)
    assert (listed.exit_code, listed.stdout) == (1, f"{refuted}\n")
    document = json.loads(claim(folder, "--json").stdout)
    validator("ticket_claims").validate(document)
    change = json.loads(claim(folder, "400MB", f"{LOOP} norm = inf", "--json").stdout)
    validator("ticket_change").validate(change)
    assert [one["state"] for one in change["claims"]] == ["CONFIRMED", "REFUTED"]
    assert claim(folder, "400MB", "--remove").exit_code == 0
    assert claim(folder, "400MB", "--remove", "--json").exit_code == 0
    assert (folder / "B7-PT-01.md").read_bytes() == before
    assert (claim(folder).exit_code, claim(folder).stdout) == (0, "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["400MB"], "mark it as what?"),
        (["400MB", f"{LOOP} n = 3", "--remove"], "mark it as what?"),
        (["400MB", "sync_in_lop n = 3"], "did you mean sync_in_loop"),
        (["400MB", f"{LOOP} about 3"], "not a condition"),
        (["500MB", f"{LOOP} n = 3"], "stands nowhere"),
    ],
)
def test_what_is_no_claim_is_refused(folder: Path, words: list[str], message: str) -> None:
    result = claim(folder, *words)
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr


def test_show_says_what_the_evidence_says_and_loads_nothing_heavy(folder: Path) -> None:
    claim(folder, "400MB", f"{LOOP} norm < 3 @ n=4")
    ended, loaded = run_watched(HEAVY, "ticket", "show", "B7-PT-01", "--tickets", folder)
    assert (ended.code, loaded) == (0, [])
    assert ended.stderr.startswith("claim in line 74: REFUTED: norm is inf (n=4)\n")
    ended, loaded = run_watched(HEAVY, "ticket", "show", "B7-PT-01", "--tickets", folder, "--json")
    document = json.loads(ended.stdout)
    validator("tickets").validate(document)
    assert ([one["state"] for one in document["tickets"][0]["claims"]], loaded) == (["REFUTED"], [])
