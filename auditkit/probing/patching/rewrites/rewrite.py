"""The rewrites of a function that may mend its findings, and the file with some of them made."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterator, Sequence

from auditkit.model.runs.run import ProbeResult
from auditkit.probing.discovery.blocks.blocks import Block
from auditkit.probing.patching.fragments import CannotComplete
from auditkit.probing.patching.local_names import names_of
from auditkit.probing.patching.patches import FunctionFile, Patch
from auditkit.probing.patching.rewrites.conditions import chosen_on_device, infinity_counts_too, nan_is_too_large
from auditkit.probing.patching.rewrites.edits import Edit, Rewrite, edited
from auditkit.probing.patching.rewrites.empties import divided_by_at_least_one, without_elements, zeros_of_nothing
from auditkit.probing.patching.rewrites.foreach import norms_together
from auditkit.probing.patching.rewrites.function_text import FunctionText
from auditkit.probing.patching.rewrites.inputs import present_gradients
from auditkit.probing.patching.rewrites.line_length import within_limit
from auditkit.probing.patching.rewrites.norms import in_float64
from auditkit.probing.patching.rewrites.operators import reshaped, without_double_copies
from auditkit.probing.patching.rewrites.packs import counted_in_packs
from auditkit.probing.patching.rewrites.reach import functions_of
from auditkit.probing.patching.rewrites.reads import read_once
from auditkit.probing.patching.rewrites.sparse import stored_values
from auditkit.probing.patching.rewrites.step_losses import (
    added_up_on_device,
    divided_by_count,
    summed_in_float32,
    weighed_by_targets,
)
from auditkit.probing.patching.rewrites.step_order import (
    clipped_before_step,
    left_out_if_nonfinite,
    stepped_once,
    unscaled_before_clip,
    zeroed_once,
)
from auditkit.probing.source_code.modules import Module, top_level

__all__ = ["Edit", "Rewrite", "rewrites_of", "rewritten"]

_FAMILIES: tuple[Callable[[Sequence[FunctionText]], Iterator[Rewrite]], ...] = (
    in_float64,
    read_once,
    norms_together,
    counted_in_packs,
    stored_values,
    reshaped,
    without_double_copies,
    without_elements,
    divided_by_at_least_one,
    zeros_of_nothing,
    nan_is_too_large,
    infinity_counts_too,
    chosen_on_device,
    present_gradients,
    unscaled_before_clip,
    clipped_before_step,
    zeroed_once,
    stepped_once,
    left_out_if_nonfinite,
    divided_by_count,
    weighed_by_targets,
    summed_in_float32,
    added_up_on_device,
)


def rewrites_of(place: FunctionFile, findings: Sequence[ProbeResult]) -> list[Rewrite]:
    """The changes of the function, and of those of its file that run with it, that may end a finding; likeliest first.

    Likeliest is what may end most of the findings, then the smallest edit. Nothing is run.
    """
    wanted = frozenset(finding.probe for finding in findings)
    lines = place.text.split("\n")
    functions = [FunctionText(function, lines) for function in functions_of(place.function, findings)]
    found = [rewrite for family in _FAMILIES for rewrite in family(functions)]
    useful = [rewrite for rewrite in found if rewrite.probes & wanted]
    return sorted(useful, key=lambda rewrite: (-len(rewrite.probes & wanted), rewrite.size))


def rewritten(place: FunctionFile, rewrites: Sequence[Rewrite]) -> Patch:
    """The file with the rewrites made.

    Raises CannotComplete where two of them change the same text, where one leaves nothing as it was, or where the
    text is no Python afterwards.
    """
    lines = place.text.split("\n")
    edits = [edit for rewrite in rewrites for edit in rewrite.edits]
    edits += _torch_import(place.function.module, edits)
    limit = FunctionText(place.function, lines).line_limit
    changed = within_limit(lines, edited(lines, edits), limit)
    text = "\n".join(changed)
    if text == place.text:
        raise CannotComplete("changes nothing")
    try:
        ast.parse(text)
    except SyntaxError as error:
        raise CannotComplete(f"is no Python: {error.msg} (line {error.lineno})") from None
    first, last = _lines_of(place)
    span = _line_in(changed, lines, first), _line_in(changed, lines, last + 1) - 1
    difference = difflib.unified_diff(lines, changed, f"a/{place.file}", f"b/{place.file}", lineterm="")
    return Patch(
        file=place.file,
        text=text,
        function="\n".join(changed[span[0] - 1 : span[1]]),
        difference="\n".join(difference),
        notes=tuple(rewrite.change for rewrite in rewrites),
        lines=span,
    )


def _line_in(changed: Sequence[str], lines: Sequence[str], line: int) -> int:
    """Where a line that no rewrite changes, or the one behind the last that it does, stands in the changed text."""
    matcher = difflib.SequenceMatcher(None, lines, changed, autojunk=False)
    moved = [there - here for here, there, size in matcher.get_matching_blocks() if here <= line - 1]
    return line + moved[-1] if moved else line


def _lines_of(place: FunctionFile) -> tuple[int, int]:
    function = place.function
    if isinstance(function, Block):
        return function.lines
    return function.node.lineno, function.node.end_lineno or function.node.lineno


def _torch_import(module: Module, edits: Sequence[Edit]) -> list[Edit]:
    """The import of torch, before the file's first import, where an edit needs it and the file has none."""
    needs = any("torch." in edit.text for edit in edits)
    if not needs or "torch" in names_of(top_level(module.tree.body)).stores:
        return []
    imports = [node for node in module.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    own = [node for node in imports if not (isinstance(node, ast.ImportFrom) and node.module == "__future__")]
    if not own:
        raise CannotComplete("needs torch, which the file does not import")
    return [Edit((own[0].lineno, 0), (own[0].lineno, 0), "import torch\n")]
