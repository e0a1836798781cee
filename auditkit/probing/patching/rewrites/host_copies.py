"""Gradients that are copied to the host one by one, reduced where they lie instead."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from auditkit.probing.patching.rewrites.devices import on_one_device
from auditkit.probing.patching.rewrites.edits import Edit, Rewrite, rewrite_of
from auditkit.probing.patching.rewrites.function_text import FunctionText

_MENDS = frozenset({
    "sync_in_loop", "syncs_grow_with_tensors", "work_runs_off_the_inputs_device", "async_collect_synchronizes",
})  # fmt: skip


def without_host_copies(functions: Sequence[FunctionText]) -> Iterator[Rewrite]:
    """`[p.grad.cpu() for p in parameters]` without the copy, and the norms on one device."""
    edits: list[Edit] = []
    for function in functions:
        for node in function.nodes:
            match node:
                case ast.ListComp(elt=ast.Call(func=ast.Attribute(value=tensor, attr="cpu")) as copied):
                    edits.append(Edit(function.last(tensor), function.last(copied), ""))
    if edits:
        together = [edit for rewrite in on_one_device(functions) for edit in rewrite.edits]
        told = "the gradients are reduced where they lie, not copied to the host"
        yield from rewrite_of("without_host_copies", _MENDS, [*edits, *together], told)
