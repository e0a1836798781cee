"""Functions that decompose replica gradients, estimate echoes, or share keys out over ranks.

Hints by name and signature: what each of them returns is found out by trying. A helper that decomposes one
matrix (`safe_svd(tensor)`) is audited through its caller.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from auditkit.model.enums import Contract
from auditkit.probing.discovery.candidates import Candidate
from auditkit.probing.source_code.modules import Function, dotted_name
from auditkit.probing.source_code.python_files import PythonFiles
from auditkit.probing.worker.gradients import slot_names

TOUCHES_SPECTRA = re.compile(rb"svds?\b|def \w*echo|def \w*(shard|partition|assign|owner)\w*\(")
_SHARD_NAME = re.compile(r"shard|partition|assign|owner|owned", re.IGNORECASE)
_SCORE = 5


def spectral_candidates(files: PythonFiles) -> Iterator[Candidate]:
    """A candidate for every public function of a module whose name and arguments fit one of the contracts."""
    for function in files.functions():
        if function.owner is not None or function.name.startswith("_"):
            continue
        contract = _contract(function)
        if contract is not None:
            yield Candidate(
                call=function.call,
                file=function.module.file,
                line=function.node.lineno,
                contract_guess=contract,
                evidence=(f"its name and its arguments {', '.join(_slots(function))} are those of {contract.value}",),
                score=_SCORE,
            )


def _contract(function: Function) -> Contract | None:
    slots = _slots(function)
    if _SHARD_NAME.search(function.name) and _names_ranks(function, slots):
        return Contract.SHARD_PLAN
    if not slot_names.looks_like_matrices(slots) or not _returned(function):
        return None
    if "echo" in function.name.lower():
        return Contract.SPECTRAL_ECHO
    return Contract.ALIGNED_SVD if _decomposes(function) else None


def _slots(function: Function) -> list[str]:
    return [parameter.arg for parameter in function.required]


def _names_ranks(function: Function, slots: list[str]) -> bool:
    """One argument of keys, and both a rank and a number of ranks beside it.

    Keys are several, or a number of them: who cuts one tensor, or the size of one, deals nothing out.
    """
    names = [parameter.arg for parameter in function.parameters]
    kinds = {slot_names.shard_kind(name) for name in names}
    keys = [slot for slot in slots if slot_names.shard_kind(slot) == "keys"]
    return (
        {"rank", "world_size"} <= kinds and len(keys) == 1 and (keys[0].endswith("s") or slot_names.is_count(keys[0]))
    )


def _decomposes(function: Function) -> bool:
    """Whether it is named for SVDs of several matrices and returns several things, or calls an SVD to do so."""
    calls = (dotted_name(node.func).rpartition(".")[2] for node in function.nodes if isinstance(node, ast.Call))
    is_named = re.search(r"svds", function.name, re.IGNORECASE) is not None
    return (is_named or any("svd" in name and "svdvals" not in name for name in calls)) and any(
        isinstance(value, ast.Tuple | ast.Dict | ast.Call) for value in _returned(function)
    )


def _returned(function: Function) -> list[ast.expr]:
    return [node.value for node in function.nodes if isinstance(node, ast.Return) and node.value is not None]
