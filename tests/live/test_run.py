"""`auditkit run` as a user types it: launchers, endings, ranks, limits, files and bad input."""

from __future__ import annotations

import json
import sys
import textwrap
import time
import tomllib
from pathlib import Path

import pytest

from tests.project_files import ROOT, Ended, auditkit, run_program

pytestmark = pytest.mark.process

PROGRAMS = Path(__file__).parent / "programs"
TRAINS = PROGRAMS / "trains.py"


def watched(folder: Path) -> dict[str, dict[str, object]]:
    """What each process that trained wrote, by its program's last argument."""
    found = {}
    for path in folder.glob("process-*.json"):
        data = json.loads(path.read_text("utf-8"))
        if data["steps"]:
            found[data["argv"][-1]] = data
    return found


def run(*arguments: object, cwd: Path) -> Ended:
    return auditkit("run", *map(str, arguments), cwd=cwd)


def test_a_shell_script_starts_programs_that_end_in_every_way(tmp_path: Path) -> None:
    """Each training process leaves its file, however it ends; workers and programs without a step are none of them."""
    script = tmp_path / "all.sh"
    module = f"cd '{PROGRAMS}' && '{sys.executable}' -m trains exit exec crash interrupt fork"
    script.write_text(f"{module} 2>/dev/null\necho printed\nexit 5\n", encoding="utf-8")
    ended = run("--folder", tmp_path / "files", "--", "sh", script, cwd=tmp_path)
    assert (ended.code, ended.stdout) == (5, "printed\n"), ended.stderr
    found = watched(tmp_path / "files")
    assert {word: data["steps"] for word, data in found.items()} == {
        "exit": 50, "exec": 50, "crash": 7, "interrupt": 7, "fork": 50,
    }  # fmt: skip
    assert [word for word, data in found.items() if not data["ended"]] == []
    assert "watched 5 of 50 steps" in ended.stderr


@pytest.mark.acceptance
def test_a_process_that_multiprocessing_spawns_is_watched(tmp_path: Path) -> None:
    ended = run("--folder", tmp_path / "files", "--", sys.executable, TRAINS, "spawn", cwd=tmp_path)
    assert ended.code == 0, ended.stderr
    ((word, data),) = watched(tmp_path / "files").items()
    assert (word, data["steps"], data["ended"]) == ("spawn", 50, True)


def test_a_watched_program_computes_the_same_bits(tmp_path: Path) -> None:
    """Weights, losses and random state of two programs over 50 steps are those of a run without auditkit."""
    plain = run_program([sys.executable, str(TRAINS), "hashes"], cwd=tmp_path)
    seen = run("--every", "1", "--", sys.executable, TRAINS, "hashes", cwd=tmp_path)
    assert (seen.code, plain.code) == (0, 0), seen.stderr
    assert seen.stdout == plain.stdout
    assert [len(line.rpartition(" ")[2]) for line in plain.stdout.splitlines()] == [64, 64]
    assert "watched 100 of 100 steps" in seen.stderr


@pytest.mark.parametrize(
    "launcher",
    [
        pytest.param([], id="forked", marks=pytest.mark.acceptance),
        pytest.param(
            ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29741"],
            id="torchrun",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_two_ranks_are_compared_and_compute_the_same_bits(launcher: list[str], tmp_path: Path) -> None:
    """Each way to train wrongly is found at its line, on both ranks; hashes over 50 correct steps do not change.

    `bypass` is jingyaogong/minimind issue 853, `tp` NVIDIA-NeMo/RL issue 3716, `data` openspeech issue 149 and
    `replaced` pytorch/pytorch issue 12603."""
    hashes = {}
    wrong = ["clip", "data", "bypass", "tp-fixed", "tp", "replaced", "sharded-fixed", "sharded"]
    watches = [sys.executable, "-P", "-m", "auditkit", "run", "--save", "r.json", "--tickets", "tickets", "--"]
    for name, prefix, words in (("plain", [], []), ("seen", watches, wrong)):
        folder = tmp_path / name
        folder.mkdir()
        program = [sys.executable, *launcher, str(PROGRAMS / "ranks.py"), *words]
        ended = run_program([*prefix, *program], tmp_path, {"HASHES": str(folder)})
        assert ended.code == 0, ended.stderr
        hashes[name] = [(folder / rank).read_text("utf-8") for rank in "01"]
    assert hashes["seen"] == hashes["plain"]
    assert "2 of 2 ranks reported" in ended.stderr
    results = json.loads((tmp_path / "r.json").read_text("utf-8"))["results"]
    (shard,) = (each["message"] for each in results if each["probe"] == "logged_norm_is_wrong")
    assert "the norm of its gradients over all ranks that hold their shards is" in shard
    shard = shard.split(",")[0]
    lines = (PROGRAMS / "ranks.py").read_text("utf-8").splitlines()
    found = [
        (each["probe"], each["severity"], lines[each["location"]["line"] - 1].strip(), each["message"].split(",")[0])
        for each in results
        if each["severity"] in ("P0", "P1")
    ]
    assert sorted(found) == sorted(
        [
            ("replicas_drift", "P0", "nn.utils.clip_grad_norm_(model.parameters(), 0.1)", "0.weight"),
            ("replicas_drift", "P0", "loss.backward()", "0.weight"),
            # `replaced`: the norm of the clip is that of one rank, so that all gradients differ.
            ("replicas_drift", "P0", "loss.backward()", "0.weight"),
            ("replicas_drift", "P0", "loss.backward()  # of the tensor-parallel model", "1.weight"),
            ("ranks_share_data", "P1", "loss.backward()", "ranks [0"),
            # A well-known trap of FSDP: each rank scales its shard by the norm of that shard.
            ("logged_norm_is_wrong", "P1", "nn.utils.clip_grad_norm_(model.parameters(), 0.1)  # of a shard", shard),
        ]
    )
    assert {tuple(each["notes"]) for each in results if each["severity"] == "P0"} == {("since step 0", "ranks 0, 1")}
    assert {each["ticket"][:6] for each in results if each["severity"] in ("P0", "P1")} == {"B1-PT-"}


@pytest.mark.acceptance
def test_four_ranks_are_compared_within_their_groups(tmp_path: Path) -> None:
    """The rank that does not clip is named; of a sharded model, only ranks with the same shard are compared."""
    program = [sys.executable, str(PROGRAMS / "ranks.py"), "clip", "hybrid-fixed", "hybrid"]
    watches = [sys.executable, "-P", "-m", "auditkit", "run", "--save", "r.json", "--"]
    ended = run_program([*watches, *program], tmp_path, {"HASHES": str(tmp_path), "WORLD": "4"})
    assert ended.code == 0, ended.stderr
    results = json.loads((tmp_path / "r.json").read_text("utf-8"))["results"]
    found = {(each["message"], tuple(each["notes"])) for each in results if each["severity"] == "P0"}
    differ = "gradients differ before the step"
    assert found == {
        (
            f"0.weight, 0.bias, 2.weight and 1 more: {differ}: not every rank clips between ranks [0, 1, 2, 3] "
            "(dp [0, 1, 2, 3]), on ranks 1 only",
            ("since step 0", "ranks 1"),
        ),
        (f"2.weight: {differ} between ranks [0, 2] (dp [0, 2])", ("since step 0", "ranks 0, 2")),
        (f"2.weight: {differ} between ranks [1, 3] (dp [1, 3])", ("since step 0", "ranks 1, 3")),
    }
    assert "4 of 4 ranks reported" in ended.stderr


@pytest.mark.acceptance
def test_compiled_code_is_left_alone(tmp_path: Path) -> None:
    """Graphs, graph breaks, losses and weights are those without auditkit; the report names what was not watched."""
    program = [sys.executable, str(PROGRAMS / "compiled.py")]
    plain = run_program(program, cwd=tmp_path)
    seen = auditkit("run", "--every", "2", "--", *program, cwd=tmp_path)
    assert (plain.code, seen.code) == (0, 0), seen.stderr
    assert seen.stdout == plain.stdout
    assert "watched 6 of 8 steps" in seen.stderr
    assert "NOT WATCHED: compiled module, optimizer, training step" in seen.stderr


def test_steps_end_a_program_that_would_go_on(tmp_path: Path) -> None:
    """After the asked steps the program is ended and judged; its files have the findings."""
    began = time.monotonic()
    outputs = ["--save", "run.json", "--html", "run.html", "--sarif", "run.sarif"]
    ended = run("--steps", "8", *outputs, "--", sys.executable, TRAINS, "hang", cwd=tmp_path)
    assert ended.code == 0, ended.stderr
    assert "the limit of steps was reached" in ended.stderr
    assert time.monotonic() - began < 300
    run_json = json.loads((tmp_path / "run.json").read_text("utf-8"))
    assert run_json["schema_version"] == 1
    assert {each["target"] for each in run_json["results"]} == {"run"}
    assert run_json["summary"]["error"] == 0
    page = (tmp_path / "run.html").read_text("utf-8")
    assert "watched 5 of " in page
    assert json.loads((tmp_path / "run.sarif").read_text("utf-8"))["version"] == "2.1.0"


def test_an_interpreter_without_pythonpath_is_watched_through_torchs_entry_point(tmp_path: Path) -> None:
    """`-I` ignores PYTHONPATH. An installed auditkit is loaded by torch; without it nothing is watched: exit code 3."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    ((name, value),) = project["project"]["entry-points"]["torch.backends"].items()
    info = tmp_path / "site" / "watcher-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: watcher\nVersion: 1\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[torch.backends]\n{name} = {value}\n", encoding="utf-8")
    code = f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(info.parent)!r}]; sys.argv[1:] = ['exit']\n"
    code += f"import runpy; runpy.run_path({str(TRAINS)!r}, run_name='__main__')"
    ended = run("--", sys.executable, "-I", "-c", code, cwd=tmp_path)
    assert ended.code == 7
    assert "watched 5 of 50 steps" in ended.stderr


def test_a_torch_that_is_too_old_is_named(tmp_path: Path) -> None:
    """The program runs as it is, although its torch lacks what the watcher reads."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text('__version__ = "2.8.0+cpu"', encoding="utf-8")
    (tmp_path / "train.py").write_text("import torch\nprint('ran')", encoding="utf-8")
    ended = run("--", sys.executable, "train.py", cwd=tmp_path)
    assert (ended.code, ended.stdout) == (3, "ran\n")
    assert ended.stderr.startswith("NOT WATCHED: torch 2.8.0+cpu is too old: auditkit run needs torch 2.9 or later")


def test_an_error_of_the_watcher_is_not_blamed_on_the_program(tmp_path: Path) -> None:
    code = """
        import torch
        def equal(one, other): raise RuntimeError("broken")
        torch.equal = equal
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(4):
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    """
    (tmp_path / "train.py").write_text(textwrap.dedent(code), encoding="utf-8")
    ended = run("--json", "--", sys.executable, "train.py", cwd=tmp_path)
    message = "NOT WATCHED: auditkit failed in the program's optimizer steps: RuntimeError: broken"
    assert (ended.code, ended.stderr.splitlines()[0]) == (3, message)
    assert json.loads(ended.stdout)["notes"] == ["rank 0: the step instrument failed: RuntimeError: broken"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "error: no command is named"),
        (["--", "no-such-program"], 2, "error: no-such-program cannot be started: No such file"),
        (["--", "./train.py"], 2, "error: ./train.py cannot be started: Permission denied"),
        (["--", sys.executable, "-c", "print('ran')"], 3, "NOT WATCHED: no process of the command loaded the watcher"),
        (["--save", "train.py/run.json", "--", "true"], 4, "train.py is not a folder"),
        (["--folder", "train.py/x", "--", "true"], 4, "error: train.py/x cannot be written"),
        (["--tickets", "train.py/x", "--", "true"], 4, "train.py is not a folder"),
        (["--accept", "replica_drift:a.py:1=why", "--", "true"], 2, "did you mean replicas_drift?"),
        (["--budget", "much", "--", "true"], 2, "error: --budget much: not a percentage"),
    ],
)
def test_bad_input_is_one_clear_line(arguments: list[str], code: int, message: str, tmp_path: Path) -> None:
    """Nothing starts for wrong usage; a program that cannot be watched runs all the same."""
    (tmp_path / "train.py").write_text("print()", encoding="utf-8")
    ended = run(*arguments, cwd=tmp_path)
    assert ended.code == code, ended.stderr
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ("ran\n" if "ran" in str(arguments) else "")
