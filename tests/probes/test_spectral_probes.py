"""Probes of spectra and of shard plans: each tells its bad specimen from the good one, with values and lines."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from auditkit.model.enums import Contract
from auditkit.model.runs.measurement import Measurement
from auditkit.model.runs.target import Target
from auditkit.probing.engine.catalog import load_catalog
from auditkit.worker.base.frames import SourceRoots
from auditkit.worker.base.refusals import CannotFeedError
from auditkit.worker.context.context import Context
from auditkit.worker.feed.caller import Caller
from auditkit.worker.feed.search import find_plan
from auditkit.worker.feed.spectral_search import owned_keys
from auditkit.worker.gradients import matrices
from auditkit.worker.gradients.forms import ShardCase
from tests.probes.in_process import ROOTS, Answer, _ask, ask, ask_all
from tests.probes.spectral_specimens import ONE_PROCESS, REPRODUCED, SOUND, SPECIMEN, TARGETS, asked_here
from tests.probing_helpers import ALIGNMENT, BATCH, ECHO, LOW_PRECISION, MATRICES, OFF_DEVICE, OVERFLOW, SHARDS

CATALOG = load_catalog()


@pytest.fixture(autouse=True)
def _specimen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SPECIMEN))


def specimen(kind: str, function: str, probe: str) -> Answer:
    return asked_here(kind, function)[probe]


# --- the contract of every probe ---------------------------------------------------------------------


@pytest.mark.acceptance
@pytest.mark.parametrize(("kind", "function"), TARGETS)
def test_a_specimen_reproduces_its_defects_and_no_others(kind: str, function: str) -> None:
    answers = asked_here(kind, function)
    expected = REPRODUCED[function] if kind == "defective" else set()
    assert {probe for probe, answer in answers.items() if answer.outcome == "reproduced"} == expected
    assert {answer.outcome for answer in answers.values()} <= {"reproduced", "not_reproduced", "not_applicable"}
    assert all(answers[probe].line for probe in expected)
    for probe, answer in answers.items():
        assert {row.name: row.unit for row in answer.rows}.items() <= CATALOG[probe].units.items()


def test_every_probe_passes_some_sound_target() -> None:
    answers = [asked_here("sound", name).items() for name in SOUND]
    passed = {probe for answer in answers for probe, said in answer if said.outcome == "not_reproduced"}
    assert passed == {*ONE_PROCESS, OFF_DEVICE}


def test_a_contract_that_it_does_not_cover_is_not_applicable() -> None:
    """A norm is no spectrum, a spectrum is no plan, and no probe of norms asks either."""
    assert specimen("sound", "shard_keys", MATRICES).outcome == "not_applicable"
    assert specimen("sound", "aligned_svds", SHARDS).outcome == "not_applicable"
    assert ask_all(Target("specan.sound:shard_keys"), [OVERFLOW], SPECIMEN)[OVERFLOW].outcome == "not_applicable"


@pytest.mark.process
def test_judging_needs_neither_torch_nor_anything_of_ours() -> None:
    stored = []
    for function, probes in REPRODUCED.items():
        for probe in probes:
            rows = [Measurement.from_json(vars(row)).to_json() for row in specimen("defective", function, probe).rows]
            stored.append((str(CATALOG[probe].path), dict(CATALOG[probe].policy), rows))
    code = (
        "import json, os, runpy, sys, types\n"
        "for path, policy, rows in json.load(sys.stdin):\n"
        "    rows = [types.SimpleNamespace(**row) for row in rows]\n"
        "    sys.path[:1] = [os.path.dirname(path)]\n"
        "    assert runpy.run_path(path)['judge'](rows, policy)['outcome'] == 'reproduced', path\n"
        "assert not {'torch', 'auditkit'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-I", "-c", code], input=json.dumps(stored), text=True, check=True)


@pytest.mark.acceptance
@pytest.mark.parametrize("probe_id", [MATRICES, ECHO, SHARDS])
def test_the_recommended_code_passes_every_probe(
    probe_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The four probes of decompositions recommend one function."""
    code = CATALOG[probe_id].remediation_code
    if probe_id == MATRICES:
        assert {CATALOG[other].remediation_code for other in (LOW_PRECISION, ALIGNMENT, BATCH)} == {code}
    (tmp_path / f"fix_of_{probe_id}.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    function = re.findall(r"^def (\w+)", code, re.MULTILINE)[-1]
    answers = ask_all(Target(f"fix_of_{probe_id}:{function}"), [*ONE_PROCESS, OFF_DEVICE], tmp_path)
    assert answers[probe_id].outcome == "not_reproduced"
    assert {answer.outcome for answer in answers.values()} <= {"not_reproduced", "not_applicable"}


@pytest.mark.parametrize("probe_id", ONE_PROCESS)
def test_a_probe_file_ends_as_all_do(probe_id: str) -> None:
    last = CATALOG[probe_id].path.read_text(encoding="utf-8").rpartition("\n\n\n")[2]
    assert last == 'if __name__ == "__main__":\n    run_alone(__file__)\n'


@pytest.mark.slow
def test_a_probe_file_runs_alone(tmp_path: Path) -> None:
    command = [sys.executable, str(CATALOG[SHARDS].path), "--checkout", str(SPECIMEN), "--json"]
    command += ["--target", "specan.defective:truncated_shards", "--contract", "shard_plan", "--python", sys.executable]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert [result["outcome"] for result in document["results"]] == ["reproduced"]
    assert document["targets"][0]["takes"] == "keys"


# --- decompositions ----------------------------------------------------------------------------------


def test_matrices_are_a_law_of_d_and_the_line_that_makes_them_is_named() -> None:
    answer = specimen("defective", "diagonal_svds", MATRICES)
    assert answer.values("elements_per_singular_value") == [4, 8, 16, 32]
    assert answer.values("bytes_at_64_replicas_of_1024") == [64 * 1024 * 1024 * 4]
    assert _line(answer, "defective").strip() == "return u_RND, torch.diag_embed(s_RD), v_RMD"
    assert specimen("sound", "aligned_svds", MATRICES).values("elements_per_singular_value") == [1, 1, 1, 1]


def test_a_dtype_that_svd_does_not_know_is_graver_than_a_rounded_result() -> None:
    raised = specimen("defective", "unpromoted_svds", LOW_PRECISION)
    assert (raised.severity, raised.values("raises")) == ("P2", [True, True])
    assert "torch.linalg.svd(chunk" in _line(raised, "defective")
    rounded = specimen("defective", "rounded_svds", LOW_PRECISION)
    assert rounded.severity == "P3"
    # bfloat16 keeps 8 bits and float16 11: half a step is 2**-9 and 2**-12 at worst.
    assert 1e-3 < rounded.values("relative_error", dtype="bfloat16")[0] < 2**-8
    assert 1e-4 < rounded.values("relative_error", dtype="float16")[0] < 2**-11


def test_the_shortfall_of_greedy_matching_shows_from_some_noise_on() -> None:
    answer = specimen("defective", "greedy_svds", ALIGNMENT)
    breaking = {row.case["gap"]: row.value for row in answer.rows if row.name == "breaking_noise"}
    assert breaking[0.02] <= breaking[0.1] <= breaking[0.5]
    assert answer.values("relative_shortfall", gap=0.5, noise=0.03) == [pytest.approx(0.0, abs=1e-6)]
    assert answer.severity == "P3"


def test_no_alignment_at_all_is_graver() -> None:
    def raw_svds(grads: torch.Tensor) -> Any:
        u, s, vh = torch.linalg.svd(grads, full_matrices=False)
        return u, s, vh.mT

    answer = ask(ALIGNMENT, raw_svds)
    assert (answer.outcome, answer.severity) == ("reproduced", "P2")


def test_an_alignment_to_the_mean_gradient_is_judged_by_that() -> None:
    def aligned_to_mean(grads: torch.Tensor) -> Any:
        return tuple(matrices.aligned(matrices.decomposed(grads), matrices.decomposed(grads.mean(0))))

    answer = ask(ALIGNMENT, aligned_to_mean)
    assert answer.message == "the best assignment to the mean gradient in all 15 cases of gap and noise"


@pytest.mark.acceptance
def test_our_own_collectors_pass() -> None:
    """Aligned SVDs, and echoes as the step that finishes them."""
    from auditkit.collectors import spectral
    from tests.project_files import ROOT

    roots = SourceRoots(str(ROOT))
    for finish in (None, spectral.spectral_echoes):
        caller = Caller(spectral.aligned_svds, None, "", {}, finish)
        plan = find_plan(caller, {"contract": "spectral_echo" if finish else "aligned_svd"})
        for probe_id in (MATRICES, LOW_PRECISION, ALIGNMENT, BATCH, ECHO):
            if plan.contract in CATALOG[probe_id].contracts:
                answer = _ask(CATALOG[probe_id], Context(plan, caller, "cpu", roots, {}), {})
                assert answer.outcome == "not_reproduced", answer.message


def test_memory_is_flat_in_chunks_and_grows_by_copies_of_the_batch_without() -> None:
    sound = specimen("sound", "aligned_svds", BATCH)
    assert sound.values("growth_per_gradient_byte") == [pytest.approx(0.0, abs=0.01)]
    whole = specimen("defective", "greedy_svds", BATCH)
    assert whole.values("growth_per_gradient_byte")[0] == pytest.approx(2.0, abs=0.1)


def test_work_of_the_host_counts_wherever_the_answer_ends_up() -> None:
    """A decomposition's answer is as large as its input: bytes alone would not tell."""

    def stays_on_the_host(grads: torch.Tensor) -> Any:
        u, s, vh = torch.linalg.svd(grads.cpu(), full_matrices=False)
        return u, s, vh.mT

    def reads_its_results(grads: torch.Tensor) -> Any:
        u, s, vh = torch.linalg.svd(grads, full_matrices=False)
        return u.cpu(), s.cpu(), vh.mT.cpu()

    outcomes = []
    for function in (stays_on_the_host, reads_its_results):
        caller = Caller(function, None, "", {})
        context = Context(find_plan(caller, {}), caller, "simulated", ROOTS, {})
        outcomes.append(_ask(CATALOG[OFF_DEVICE], context, {}).outcome)
    assert outcomes == ["reproduced", "not_reproduced"]


@pytest.mark.parametrize("size", [1, 2, 5, 6])
def test_the_best_assignment_is_the_best_of_all_permutations(size: int) -> None:
    generator = torch.Generator().manual_seed(size)
    for _ in range(5):
        scores = torch.rand(size, size, generator=generator, dtype=torch.float64)
        orders = itertools.permutations(range(size))
        best = max(sum(float(scores[row, column]) for column, row in enumerate(order)) for order in orders)
        found = matrices.best_assignment(scores)
        assert sorted(found) == list(range(size))
        assert float(scores[found, range(size)].sum()) == pytest.approx(best)


# --- echoes ------------------------------------------------------------------------------------------


def test_the_bias_of_an_echo_is_its_law_in_the_number_of_replicas() -> None:
    answer = specimen("defective", "biased_echoes", ECHO)
    expected = [(1 - 2 / count) ** 0.5 for count in (2, 3, 4, 8, 16, 32)]
    assert answer.values("echo_of_identical") == pytest.approx(expected, abs=1e-3)


def test_refusing_too_few_replicas_in_words_is_no_finding() -> None:
    answer = specimen("sound", "spectral_echoes", ECHO)
    assert answer.values("refused") == [True, False, False, False, False, False]
    assert answer.values("echo_of_orthogonal") == pytest.approx([0.0] * 5, abs=1e-3)


def test_an_echo_that_is_nan_for_orthogonal_replicas_is_a_finding() -> None:
    def divides(grads: torch.Tensor) -> torch.Tensor:
        u, _, vh = torch.linalg.svd(grads, full_matrices=False)
        z = torch.einsum("and,bnd->dab", u, u) * torch.einsum("adm,bdm->dab", vh, vh)
        mean = (z.sum((1, 2)) - z.shape[1]) / (z.shape[1] * (z.shape[1] - 1))
        return (mean - 1e-3).sqrt() + 5e-4

    assert "orthogonal ones echo nan" in ask(ECHO, divides).message


# --- how targets are fed and read --------------------------------------------------------------------


def _svds(grads: torch.Tensor) -> Any:
    u, s, vh = torch.linalg.svd(grads.float(), full_matrices=False)
    return {"left": u, "values": s, "right_rows": vh}


def _listed(gradients: list) -> Any:
    first, *others = gradients.copy()  # a list, no tensor
    return [tuple(torch.linalg.svd(each, full_matrices=False)) for each in (first, *others)]


def _by_layer(grads: dict) -> Any:
    return {name: torch.linalg.svd(each, full_matrices=False) for name, each in grads.items()}


def _realigned(raw_svds: Any, mean_svd: Any) -> Any:
    raw, reference = matrices.Svd(*raw_svds), matrices.Svd(*mean_svd)
    return tuple(matrices.aligned(raw, reference))


@pytest.mark.parametrize(
    ("function", "forms", "right"),
    [
        (_svds, "batch", ("right_rows", "rows")),
        (_listed, "list", ("*.2", "rows")),
        (_by_layer, "mapping", ("layers.0.weight.2", "rows")),
        (_realigned, "svds,mean_svd", ("2", "columns")),
    ],
)
def test_factors_are_found_in_any_form(function: Any, forms: str, right: tuple[str, str]) -> None:
    plan = find_plan(Caller(function, None, "", {}), {"contract": "aligned_svd"})
    assert ",".join(plan.feed.forms) == forms
    assert (plan.roles["right"].path, plan.roles["right"].kind) == right
    assert set(plan.roles) == {"left", "svals", "right"}


def test_echoes_of_factors_are_asked_with_aligned_ones() -> None:
    def echo(left_bases_U: torch.Tensor, right_bases_V: torch.Tensor) -> dict:
        u, v = left_bases_U, right_bases_V
        z = torch.einsum("and,bnd->abd", u, u) * torch.einsum("amd,bmd->abd", v, v)
        return {"count": len(u), "spectral_echo": z.mean((0, 1))}

    plan = find_plan(Caller(echo, None, "", {}), {"contract": "spectral_echo"})
    assert (plan.feed.forms, plan.feed.takes) == (("left", "right"), "factors")
    assert plan.roles["echo"].path == "spectral_echo"


def test_what_is_no_decomposition_is_refused_with_what_was_tried() -> None:
    with pytest.raises(CannotFeedError, match="batch: CannotReadError: its answer \\(tensor\\) holds no singular"):
        find_plan(Caller(lambda grads: grads * 2, None, "", {}), {"contract": Contract.ALIGNED_SVD.value})
    with pytest.raises(CannotFeedError, match="nothing is known to fit its arguments alpha, beta"):
        find_plan(Caller(lambda alpha, beta: None, None, "", {}), {"contract": "spectral_echo"})


CASE = ShardCase(7, 1, 3)
KEYS = [f"layers.{index // 4}.{('query', 'key', 'mlp', 'norm')[index % 4]}.weight" for index in range(7)]


@pytest.mark.parametrize(
    "answer",
    [
        [KEYS[1], KEYS[4]],
        {KEYS[4], KEYS[1]},
        (index for index in (1, 4)),
        [(KEYS[1], 0), (KEYS[4], 1)],
        [KEYS[0::3], KEYS[1::3], KEYS[2::3]],
    ],
)
def test_a_share_is_read_in_any_form(answer: Any) -> None:
    assert sorted(owned_keys(answer, CASE).keys) == [1, 4]


@pytest.mark.parametrize(
    ("function", "forms"),
    [
        (lambda world_size, rank, names: names[rank::world_size], "world_size,rank,texts"),
        (lambda params, n_shards: [list(params)[r::n_shards] for r in range(n_shards)], "texts,world_size"),
        (lambda keys, rank=0, world_size=1: keys[rank::world_size], "texts,rank,world_size"),
    ],
)
def test_a_plan_is_fed_by_the_names_of_its_arguments(function: Any, forms: str) -> None:
    assert find_plan(Caller(function, None, "", {}), {"contract": "shard_plan"}).feed.forms == tuple(forms.split(","))


def test_a_plan_of_unequal_work_is_no_finding_and_says_how_unequal() -> None:
    answer = ask(SHARDS, lambda keys, rank, world_size: keys[rank::world_size])
    assert answer.outcome == "not_reproduced"
    (unequal,) = answer.values("busiest_over_mean_work")
    assert answer.message.endswith(f"{unequal:.3g}x the mean work")
    assert unequal > 3


def _line(answer: Answer, module: str) -> str:
    assert answer.line is not None
    return (SPECIMEN / "specan" / f"{module}.py").read_text("utf-8").splitlines()[answer.line - 1]
