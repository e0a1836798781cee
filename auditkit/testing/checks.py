"""`check(collector)`: laws and bounds that a collector must keep, each measured by the probe that knows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from auditkit.assets import bundled_dir
from auditkit.errors import BadInputError
from auditkit.model.enums import Evidence, Outcome, Severity
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import ProbeResult
from auditkit.probing.engine.catalog import load_catalog, probe_named, read_probe, select
from auditkit.testing.failures import GuardFailed, GuardUnavailable, Unused, failure, in_words
from auditkit.testing.subject import Answer, Subject, member

__tracebackhide__ = True  # pytest shows the test's own line

_PEAK = "_peak_by_tensors.py"
_TENSOR_BYTES = 256 << 10
# The norm of each tensor is a scalar, for which an allocator gives up to 512 bytes.
_SCALARS_SHARE = 0.01
_UNANSWERED = (Outcome.NOT_APPLICABLE, Outcome.UNAVAILABLE)


def check(
    target: Callable[..., Any] | str,
    *,
    contract: str | None = None,
    takes: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    returns: Mapping[str, str] | None = None,
    finish: Callable[..., Any] | None = None,
    device: str = "auto",
    root: str | Path | None = None,
) -> Check:
    """Return a collector to hold against laws: `check(grad_norm).finite_up_to(1e30).syncs(at_most=1)`.

    `target` is a function, a method, or `package.module:function`. auditkit finds out by trying how to feed it;
    `arguments` by their names are what it gets beside gradients. The other words are those of auditkit.yaml. `device`
    is `auto` (a GPU if there is one, else the simulated one), `cpu`, `cuda` or `simulated`. Raises BadInputError.
    """
    words = {"contract": contract, "takes": takes, "arguments": arguments, "returns": returns}
    return Check(Subject(target, Path(root or Path.cwd()), {**words, "finish": finish, "device": device}))


class Check:
    """Each method checks one law and returns the same check, or raises GuardFailed or GuardUnavailable."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._unused = Unused(
            f"check({self._call}) names no law: add .syncs(at_most=0), .finite_up_to(1e30), .passes()"
        )

    def __bool__(self) -> bool:
        """`assert check(f)` would pass whatever `f` does."""
        self._unused.use()
        raise BadInputError(f"check({self._call}) is neither true nor false", "call a law: .syncs(at_most=0)")

    def finite_up_to(self, norm: float, dtypes: Sequence[str] = ("float32", "bfloat16")) -> Check:
        """Its norm is right for every gradient whose true norm is up to `norm`, in each of the dtypes.

        They are those of norm_overflows_on_finite_grads: float32, bfloat16, float16, mixed and float64.
        """
        answer, probe = self._answered("norm_overflows_on_finite_grads")
        rows = {str(m.case["dtype"]): m for m in answer.result.measurements if m.name == "breaking_norm"}
        missing = [dtype for dtype in dtypes if dtype not in rows]
        if missing or not dtypes:
            raise GuardUnavailable(f"{self._call}: not judged in {', '.join(missing)}; judged: {', '.join(rows)}")
        limits = {dtype: rows[dtype].value for dtype in dtypes if rows[dtype].value is not None}
        worst = min(limits, key=lambda dtype: limits[dtype], default="")
        if limits and limits[worst] <= norm:
            head = f"the norm breaks at {limits[worst]:.3g} in {worst}, and is to be right up to {norm:g}"
            law = "; ".join(f"right below {value:.3g} in {dtype}" for dtype, value in limits.items())
            raise self._failed(head, law, answer, probe)
        return self

    def syncs(self, at_most: int | None = None) -> Check:
        """It waits for the device at most so often in one call; without a bound as often for any number of tensors."""
        return self._count("syncs_grow_with_tensors", "sync_count", "synchronizations", at_most, 0.0)

    def launches(self, at_most: int | None = None) -> Check:
        """It launches at most so many kernels in one call; without a bound as many for any number of tensors."""
        # foreach packs some dozens of tensors into one launch.
        return self._count("launches_grow_with_tensors", "launch_count", "launches", at_most, 0.1)

    def peak(self, at_most: float | None = None) -> Check:
        """Its memory's peak is at most so many times the gradients' bytes; without a bound it does not grow with them.

        Tensors have 65,536 elements of float32 each; what is below a hundredth of the gradients' bytes is no growth.
        """
        answer, probe = self._answered(_PEAK)
        for name, where in (("peak_extra_bytes", ""), ("python_peak_bytes", " in NumPy and Python memory")):
            peaks = answer.figures(name)
            most = max(peaks)
            share = peaks[most] / (most * _TENSOR_BYTES)
            head = f"{share:.3g}x the gradients' bytes at the peak{where}, {most} tensors of 256 KiB"
            law = f"bytes for n tensors: {_listed(peaks)}"
            if at_most is not None and share > at_most:
                raise self._failed(f"{head}; at most {at_most:g}x is allowed", law, answer, probe)
            if at_most is None and _grows(peaks, _SCALARS_SHARE * _TENSOR_BYTES):
                raise self._failed(f"{head}; it is to be the same at every size", law, answer, probe)
        return self

    def passes(self, *probes: str, fail_on: str = "P4") -> Check:
        """None of these probes reproduces a finding as bad as `fail_on`; without names no stable one that fits it."""
        self._unused.use()
        bound = member(Severity, "severity", fail_on)
        catalog = load_catalog()
        contract = self._subject.contract()
        chosen = [probe_named(catalog, name) for name in probes] or [
            probe for probe in select(catalog, (), style=False) if contract in probe.contracts
        ]
        if not chosen:
            raise BadInputError(f"no probe fits {self._call} as {contract.value}", "name probes, or another contract=")
        source = [probe.id for probe in chosen if probe.scope == "source"]
        if source:
            raise BadInputError(f"{source[0]} reads source and calls nothing", "run it with auditkit probe run")
        answers = self._subject.ask(chosen)
        findings = [each for each in answers if _is_finding(each.result, bound)]
        if findings:
            head = f"{len(findings)} of {len(answers)} probes reproduce a finding of {bound.value} or worse"
            raise failure(f"{self._call}: {head}", *_told(findings))
        unanswered = [each.result for each in answers if each.result.outcome in _UNANSWERED]
        if unanswered and (probes or len(unanswered) == len(answers)):
            raise GuardUnavailable("; ".join(f"{each.probe}: {each.message}" for each in unanswered))
        return self

    # --- how it is run ---------------------------------------------------------------------------

    @property
    def _call(self) -> str:
        return self._subject.target.call

    def _answered(self, asked: str) -> tuple[Answer, ProbeInfo]:
        """Return the probe's result. Raises GuardUnavailable if there is none, GuardFailed if the target raised."""
        self._unused.use()
        is_ours = asked == _PEAK  # it is in no list of probes
        probe = read_probe(bundled_dir("probes") / _PEAK) if is_ours else probe_named(load_catalog(), asked)
        self._subject.contract()
        (answer,) = self._subject.ask([probe])
        result = answer.result
        if result.outcome in _UNANSWERED:
            raise GuardUnavailable(f"{self._call}: {result.message}")
        if result.outcome is Outcome.ERROR:
            raise failure(f"{self._call}: {result.message}", ("line", answer.line), ("asked", probe.title))
        return answer, probe

    def _count(self, probe_id: str, name: str, things: str, at_most: int | None, tolerance: float) -> Check:
        answer, probe = self._answered(probe_id)
        counts = answer.figures(name)
        most = max(counts)
        head = f"{counts[most]:,} {things} at {most:,} tensors"
        text = next(m for m in answer.result.measurements if m.name == f"{name}_law").case["law"]
        law = f"{text} {things} for n tensors: {_listed(counts)}"
        if at_most is not None and max(counts.values()) > at_most:
            raise self._failed(f"{head}; at most {at_most:,} allowed", law, answer, probe)
        if at_most is None and _grows(counts, tolerance):
            raise self._failed(f"{head}; their number is to be the same at every size", law, answer, probe)
        return self

    def _failed(self, head: str, law: str, answer: Answer, probe: ProbeInfo) -> GuardFailed:
        kinds = {each.evidence for each in answer.result.measurements}
        kind = max(kinds, key=lambda kind: kind is Evidence.SIMULATED) if kinds else None
        evidence = [in_words(kind, answer.result.device), *answer.result.notes]
        facts = (("law", law), ("line", answer.line), ("evidence", evidence), ("fix", probe.remediation))
        return failure(f"{self._call}: {head}", *facts)


def _grows(figures: Mapping[int, float], tolerance: float) -> bool:
    """Whether the figures by size grow by more than `tolerance` for each unit of size."""
    points = sorted(figures.items())
    return any(high - low > tolerance * (larger - smaller) for (smaller, low), (larger, high) in pairwise(points))


def _listed(figures: Mapping[int, float]) -> str:
    """`4 at 4, 16 at 16`."""
    return ", ".join(f"{figure:,} at {size:,}" for size, figure in sorted(figures.items()))


def _is_finding(result: ProbeResult, bound: Severity) -> bool:
    """Whether a result is reproduced and as bad as the bound; an error is never a pass."""
    if result.outcome is Outcome.ERROR:
        return True
    return result.outcome is Outcome.REPRODUCED and (result.severity or Severity.P0).at_least(bound)


def _told(findings: Sequence[Answer]) -> list[tuple[str, list[str]]]:
    told = []
    for answer in sorted(findings, key=lambda each: each.result.severity or Severity.P0):
        result = answer.result
        law = [f"law: {result.law}"] if result.law else []
        evidence = [in_words(result.evidence, result.device)] if result.evidence is not None else []
        said = [f"{result.probe}: {result.message}", *law, *answer.line, *evidence]
        told.append((result.severity.value if result.severity else "error", said))
    return told
