"""Which target of the base is which of the head: by qualified name, else by what its body says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from auditkit.config.config import Config
from auditkit.model.revisions.comparison import MatchState, TargetMatch
from auditkit.model.runs.target import Target
from auditkit.probing.run.found_targets import find_targets
from auditkit.probing.source.files import LeftOut
from auditkit.probing.source.history.anchors import AnchorState, FoundAgain, text_of
from auditkit.probing.source.python_files import PythonFiles
from auditkit.trials.questions import Version


@dataclass(frozen=True)
class TargetPair:
    """A target at each revision; None where it does not exist."""

    match: TargetMatch
    base: Target | None
    head: Target | None


def pair_found(
    base: Version,
    head: Version,
    config: Config,
    trying: Callable[[str], None],
    only: Callable[[Target, PythonFiles], bool],
) -> tuple[list[TargetPair], list[Sequence[str]]]:
    """What discovery finds at each revision beside the targets of auditkit.yaml, matched; and its notes at each.

    Nothing that `only` rejects is found.

    A target of one revision whose function the other one has, although it was not found there, is checked
    at both. Raises what discovery raised at the head where neither revision has a target.
    """
    older, newer = (
        find_targets(
            side.opened,
            side.setting,
            config.import_roots,
            trying,
            left_out=LeftOut(side.opened.path, config.exclude),
            configured=config.targets,
            only=only,
        )
        for side in (base, head)
    )
    ours, theirs = older.found, newer.found
    if not ours and newer.failure is not None:
        raise newer.failure
    by_call = {target.call: target for target in theirs}
    named = [pair_named(target, base, head) for target in ours]
    pairs = [replace(pair, head=by_call.get(pair.match.head, pair.head)) for pair in named]
    taken = {pair.match.head for pair in pairs}
    pairs += [_pair_back(target, base, head) for target in theirs if target.call not in taken]
    return pairs, [older.notes, newer.notes]


def _find(call: str, here: Version, there: Version) -> FoundAgain | None:
    """The function of `here` at the other revision; None where `here` has none, LOST where the other has none.

    A function that both revisions have under its own name is no other one renamed, however alike they are.
    """
    anchor = here.source.anchor(call)
    if anchor is None:
        return None
    found = there.source.find_again(anchor)
    is_other = found.state in (AnchorState.MOVED, AnchorState.RENAMED) and here.source.anchor(found.call) is not None
    return FoundAgain(AnchorState.LOST, None, 0.0) if is_other else found


def pair_named(target: Target, base: Version, head: Version) -> TargetPair:
    found = _find(target.call, base, head)
    if found is not None and found.state is not AnchorState.LOST:
        return _pair(target, _as_found(target, found, base, head), found, base, head)
    there = head.source.anchor(target.call)
    if found is not None and there is None:
        return _pair(target, None, MatchState.REMOVED, base, head)
    if there is None:
        # An instance's method, or a name that another module hands on: only importing it can tell.
        return _pair(target, target, MatchState.UNREAD, base, head)
    return _pair_back(target, base, head)


def _pair_back(target: Target, base: Version, head: Version) -> TargetPair:
    """A target of the head, looked for at the base."""
    found = _find(target.call, head, base)
    if found is None or found.state is AnchorState.LOST:
        return _pair(None, target, MatchState.ADDED, base, head)
    return _pair(_as_found(target, found, head, base), target, found, base, head)


def _as_found(target: Target, found: FoundAgain, here: Version, there: Version) -> Target:
    """The same request under the names of the other revision; the step that finishes it is looked for, too."""
    finish = target.finish
    if finish is not None and (anchor := here.source.anchor(finish)) is not None:
        finish = there.source.find_again(anchor).call or finish
    return replace(target, call=found.call, finish=finish)


def _pair(
    before: Target | None, after: Target | None, found: FoundAgain | MatchState, base: Version, head: Version
) -> TargetPair:
    sides = ((base, before.call if before else ""), (head, after.call if after else ""))
    functions = [side.source.function(call) for side, call in sides]
    texts = [text_of(one) if one is not None else None for one in functions]
    state, alike = (found, 0.0) if isinstance(found, MatchState) else (MatchState(found.state.value), found.similarity)
    return TargetPair(TargetMatch(sides[0][1], sides[1][1], state, alike, *texts), before, after)


def names_of(pairs: Sequence[TargetPair]) -> dict[str, str]:
    """From a name at the base to the one at the head, of targets and of their modules."""
    both = [(pair.base.call, pair.head.call) for pair in pairs if pair.base and pair.head]
    both += [(before.partition(":")[0], after.partition(":")[0]) for before, after in both]
    return {before: after for before, after in both if before != after}
