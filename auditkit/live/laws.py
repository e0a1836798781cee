"""The laws: properties of a correct training run, each one function from what the processes wrote to findings."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from auditkit.live.recording import Place, Process, Recording
from auditkit.model.enums import Evidence, Severity

P0, P1, P2, P3, P4 = Severity.P0, Severity.P1, Severity.P2, Severity.P3, Severity.P4
_NAMED = 3
_TOLERANCE = 0.01


@dataclass(frozen=True)
class Broken:
    """One violation: what happened, where, since which step and on which ranks.

    `about` tells violations of one law apart: those of several ranks that share it are one finding.
    """

    severity: Severity
    message: str
    place: Place
    since: int = 0
    about: str = ""
    ranks: tuple[int, ...] = ()
    measured: tuple[tuple[str, float, str], ...] = ()
    evidence: Evidence = Evidence.MEASURED


class NotShown(Exception):
    """The run cannot show whether the law holds; the message says why."""


@dataclass(frozen=True)
class Law:
    """One row of the table: `instruments` are those whose failure makes the law an error.

    A law of one process has `of_process`, one that compares processes `of_run`, which may raise NotShown. Unless a
    process passes `shown`, the law does not apply, for the reason `unshown`.
    """

    id: str
    title: str
    severity: Severity
    remedy: str
    instruments: tuple[str, ...] = ("step",)
    of_process: Callable[[Process], Iterable[Broken]] = lambda _: ()
    of_run: Callable[[Recording], Iterable[Broken]] = lambda _: ()
    shown: Callable[[Process], Any] = lambda _: True
    unshown: str = ""

    def broken(self, run: Recording) -> list[Broken]:
        """Return the violations, the worst first. Raises NotShown."""
        if not any(self.shown(process) for process in run.trained):
            raise NotShown(self.unshown)
        own = (replace(each, ranks=(process.rank,)) for process in run.trained for each in self.of_process(process))
        return merged([*self.of_run(run), *own])


def merged(found: Iterable[Broken]) -> list[Broken]:
    """One violation for all ranks that share it, the worst first; its step is the earliest."""
    kept: dict[tuple[Place, str], Broken] = {}
    for each in found:
        key = (each.place, each.about)
        if key in kept:
            ranks = tuple(sorted({*kept[key].ranks, *each.ranks}))
            each = replace(kept[key], ranks=ranks, since=min(kept[key].since, each.since))
        kept[key] = each
    return sorted(kept.values(), key=lambda each: (each.severity.value, each.since))


# What several laws read.


def _names(process: Process, indexes: list[int]) -> str:
    """`a.weight, a.bias, b.weight and 12 more`."""
    return listed([process.name_of(index) for index in indexes], _NAMED)


def listed(names: Sequence[str], most: int) -> str:
    """Return at most so many of the names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _place(raw: Any) -> Place:
    return str(raw[0]), int(raw[1]), str(raw[2])


def _backward(turns: list[dict[str, Any]]) -> Place:
    """The line of the last backward before a step; the step's line if the backward was not seen."""
    for turn in turns:
        for event in reversed(turn["events"]):
            if event["kind"] == "backward" and event["at"][0]:
                return _place(event["at"])
    return _place(turns[0]["at"]) if turns else ("", 0, "")


def _step(process: Process, optimizers: list[int]) -> Place:
    lines = [process.optimizers[index]["first_line"] for index in optimizers]
    return _place(next((line for line in lines if line[0]), ("", 0, "")))


def _stepped(process: Process, parameter: dict[str, Any]) -> list[int]:
    """The optimizers that hold a parameter and made an inspected step."""
    return [index for index in parameter["optimizers"] if process.optimizers[index]["inspected"]]


def _where(process: Process, holds: Callable[[dict[str, Any]], Any]) -> list[int]:
    """The indexes of the parameters for which a condition holds."""
    return [index for index, each in enumerate(process.parameters) if holds(each)]


def _of_parameters(
    process: Process, severity: Severity, found: list[int], text: str, since: int = 0, place: Place | None = None
) -> Iterator[Broken]:
    """Yield a violation by some parameters, if there are any: by default at the step of their optimizer."""
    if found:
        place = place or _step(process, process.parameters[found[0]]["optimizers"])
        measured = (("parameters", len(found), "count"),)
        yield Broken(severity, f"{_names(process, found)}: {text}", place, since, text[:20], (), measured)


# Parameters and their optimizer.


def _misses(process: Process) -> Iterator[Broken]:
    parameters = process.parameters
    groups: dict[str, list[int]] = defaultdict(list)
    for index in _where(process, lambda each: not each["optimizers"] and each["with_gradient"] >= 2):
        if not parameters[index]["moved"]:
            groups[parameters[index]["root"]].append(index)
    stale = _where(
        process, lambda each: each["optimizers"] and not each["with_gradient"] and not each["name"] and each["seen"] > 1
    )
    for root, missing in groups.items():
        held = {each["part"] for each in parameters if each["root"] == root and _stepped(process, each)}
        severity, text = P2, "no optimizer has them: gradients reach them, and no step changes a value"
        if stale:
            severity, text = P0, f"{text}; the optimizer has {len(stale)} tensors that no module uses"
        elif all(parameters[n]["owner_eval"] == parameters[n]["seen"] for n in missing):
            text += " (their modules are in eval mode: freeze them with requires_grad_(False) if that is meant)"
        elif len(held) == 1 and not held & {parameters[index]["part"] for index in missing}:
            text += f" (the optimizer was built from {next(iter(held))} alone: freeze the others if that is meant)"
        else:
            severity = P0
        owner = process.stepping[0] if process.stepping else process.optimizers[0]
        place = _place(owner["place"] if owner["place"][0] else owner["first_line"])
        yield from (replace(each, about=root) for each in _of_parameters(process, severity, missing, text, 0, place))
    pairs: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, each in enumerate(parameters):
        for one, other in pairwise(_stepped(process, each)):
            first, second = process.optimizers[one], process.optimizers[other]
            if first["last_turn"] > second["first_turn"] and second["last_turn"] > first["first_turn"]:
                pairs[one, other].append(index)
    for (one, other), shared in pairs.items():
        names = f"{process.optimizers[one]['name']} and {process.optimizers[other]['name']}"
        text = f"two optimizers ({names}) step them: each applies the same gradient"
        yield from _of_parameters(process, P1, shared, text, 0, _step(process, [other]))


def _get_no_gradient(run: Recording) -> Iterator[Broken]:
    anywhere = {(each["root"], each["name"]) for p in run.trained for each in p.parameters if each["with_gradient"]}
    for process in run.trained:
        if any(_zeroed(turn) for turn in process.turns):
            continue  # the gradients were there, and are lost: that is another law's finding
        silent = _where(
            process,
            lambda each: (
                _stepped(process, each)  # noqa: B023
                and each["requires_grad"]
                and each["ran"] >= 2
                and not each["with_gradient"]
                # A rank may hold no element of a sharded parameter.
                and not (each["shards"] and (each["root"], each["name"]) in anywhere)
            ),
        )
        reached = {_owner(each) for each in process.parameters if each["with_gradient"]}
        kinds: dict[tuple[Severity, str], list[int]] = defaultdict(list)
        for index in silent:
            each = process.parameters[index]
            whole = (P2, _PARTLY) if _owner(each) in reached else (P1, _WHOLE)
            kinds[(P2, _MEANT) if each["ran_without_grad"] == each["ran"] else whole].append(index)
        for (severity, what), found in kinds.items():
            text = f"no gradient in any inspected step. {what}"
            for each in _of_parameters(process, severity, found, text, 0, _backward(process.turns)):
                yield replace(each, about=what, ranks=(process.rank,))


_WHOLE = "Their modules run, but no gradient of the loss reaches them: detached or unused"
_PARTLY = "Other parameters of the same modules get one: these are unused in this configuration"
_MEANT = (
    "Their modules run only under torch.no_grad(). If that is meant, as for a teacher, freeze them with "
    "requires_grad_(False) or leave them out of the optimizer"
)


def _owner(parameter: dict[str, Any]) -> str:
    return f"{parameter['root']}:{parameter['name'].rpartition('.')[0]}"


def _frozen_move(process: Process) -> Iterator[Broken]:
    parameters = process.parameters
    trained = [index for index in process.unfrozen if parameters[index]["changed"]]
    text = "`requires_grad = False` on their module sets an attribute of the module, and the optimizer's step changes "
    yield from _of_parameters(process, P1, trained, text + "the parameters. Call module.requires_grad_(False)")
    moved = _where(process, lambda each: each["frozen_moved"] is not None)
    text = (
        "frozen (requires_grad is False), and the optimizer's step changes them: they keep an old gradient, momentum "
    )
    first = min((parameters[index]["frozen_moved"] for index in moved), default=0)
    yield from _of_parameters(process, P1, moved, text + "or weight decay", first)


def _stay(process: Process) -> Iterator[Broken]:
    stayed = _where(process, lambda each: each["stayed"] and not each["changed"] and not each["moved"])
    text = "gradients are finite and not zero, the learning rate is not 0, and no inspected step changed a single bit"
    yield from _of_parameters(process, P0, stayed, text)


def _nonfinite(process: Process) -> Iterator[Broken]:
    bad = _where(process, lambda each: each["bad_value"] is not None and each["optimizers"])
    if bad:
        first = min(process.parameters[index]["bad_value"] for index in bad)
        since = 1 + max((turn["step"] for turn in process.turns if turn["step"] < first), default=-1)
        when = f"between steps {since} and {first}" if first > since else f"in step {first}"
        own = process.parameters[bad[0]]["optimizers"]
        turns = [turn for turn in process.turns if turn["step"] >= first and turn["optimizer"] in own]
        place = _place(turns[0]["at"]) if turns else _step(process, own)
        yield from _of_parameters(process, P1, bad, f"became NaN or inf {when}", since, place)
    for optimizer in process.optimizers:
        if optimizer["attempts"] >= 5 and not optimizer["steps"]:
            message = f"the scaler skipped all {optimizer['attempts']} steps: every gradient held NaN or inf"
            yield Broken(P1, message, _place(optimizer["place"]), 0, "skipped")


def _vanish(process: Process) -> Iterator[Broken]:
    shares = {}
    for index, each in enumerate(process.parameters):
        seen = [fraction for _, fraction in each["vanished"][2:]]
        if len(seen) >= 3 and min(seen) > 0.5:
            shares[index] = sum(seen) / len(seen)
    lost = sorted(shares, key=lambda index: -shares[index])
    if lost:
        shown = listed([f"{process.name_of(index)} ({shares[index]:.0%})" for index in lost], _NAMED)
        message = f"most sampled elements with a gradient do not change in a step: {shown}. "
        place = _step(process, process.parameters[lost[0]]["optimizers"])
        measured = (("unchanged_elements", 100 * shares[lost[0]], "percent"),)
        since = process.parameters[lost[0]]["vanished"][2][0]
        text = "Keep float32 master weights or round stochastically"
        yield Broken(P3, message + text, place, since, "", (), measured)


# Gradients between backward and step: patterns in the recorded events of a turn.


_Said = tuple[Severity, str, Place] | None


def _whole(process: Process) -> Iterator[list[dict[str, Any]]]:
    """The turns of each optimizer of which everything was recorded."""
    for optimizer in process.stepping:
        turns = [turn for turn in process.turns_of(optimizer["index"]) if turn["whole"]]
        if turns:
            yield turns


def _in_turns(*patterns: Callable[[Process, dict[str, Any]], _Said]) -> Callable[[Process], Iterator[Broken]]:
    """Return a law that is broken where a pattern is the program's rule: it happens twice, or in every turn."""

    def check(process: Process) -> Iterator[Broken]:
        for turns in _whole(process):
            for find in patterns:
                found = [(turn, said) for turn in turns if (said := find(process, turn))]
                if len(found) >= 2 or len(found) == len(turns):
                    turn, (severity, message, place) = found[0]
                    message += f" (in {len(found)} of {len(turns)} inspected steps)"
                    yield Broken(severity, message, place, turn["step"], find.__name__)

    return check


def _changing(turn: dict[str, Any], kind: str) -> dict[int, dict[str, Any]]:
    """The events of a kind that changed gradients, by their position in the turn."""
    return {n: event for n, event in enumerate(turn["events"]) if event["kind"] == kind and event["changed"]}


def _touching(turn: dict[str, Any]) -> list[dict[str, Any]]:
    return [*_changing(turn, "backward").values()]


def _stale(_: Process, turn: dict[str, Any]) -> _Said:
    backwards = _touching(turn)
    zeroed = any(event["kind"] == "zero_grad" and not event["after"][0] for event in turn["events"])
    fresh = any(event["kind"] == "backward" and not event["before"][0] for event in turn["events"])
    if not backwards or zeroed or fresh or not backwards[0]["stale"]:
        return None
    message = "the gradients of the step before were still there when the next backward began: every step adds all "
    return P0, message + "earlier gradients. Call zero_grad() once per step", _place(backwards[0]["at"])


def _zeroed(turn: dict[str, Any]) -> Place | None:
    backwards = _touching(turn)
    if not backwards or turn["at_step"][0] or not backwards[-1]["after"][0]:
        return None
    zeros = [event for event in turn["events"] if event["kind"] == "zero_grad"]
    return _place(zeros[-1]["at"] if zeros else turn["at"])


def _zeroed_before_step(_: Process, turn: dict[str, Any]) -> _Said:
    place = _zeroed(turn)
    message = "gradients are zeroed between backward and step: the step has nothing to apply. Move zero_grad() after "
    return (P0, message + "the step", place) if place else None


def _lost_batch(_: Process, turn: dict[str, Any]) -> _Said:
    """A gradient that was zeroed although no step used it and no parameter changed meanwhile.

    If the program itself wrote the gradients that the step used, as gradient surgery does, nothing was lost.
    """
    waiting: dict[str, Any] | None = None
    found: Place | None = None
    for event in turn["events"]:
        if event["kind"] in ("step", "skipped"):
            waiting = None
        gone = event["kind"] == "zero_grad" and event["before"][0] and not event["after"][0]
        fresh = event["kind"] == "backward" and not event["before"][0]
        if waiting is not None and (gone or fresh) and event["values"] == waiting["values"]:
            found = _place(event["at"])
        if gone or fresh:
            waiting = None
        if event["kind"] == "backward" and event["changed"] and event["after"][0]:
            waiting = event
    if found is None or not turn["at_step"][0] or turn["edited"]:
        return None
    message = "the gradient of a micro-batch is zeroed before any step uses it: only the last one trains the model. "
    return P0, message + "Call zero_grad() only after a step", found


def _acting(turn: dict[str, Any]) -> list[dict[str, Any]]:
    """The clips of a turn that met new gradients."""
    events = turn["events"]
    first = min(_changing(turn, "backward"), default=len(events))
    return [clip for clip in turn["clips"] if clip["position"] > first or not events[clip["position"]]["stale"]]


def _late_clip(_: Process, turn: dict[str, Any]) -> _Said:
    late = [clip for clip in turn["clips"] if clip["before"]]
    if not late or _acting(turn):
        return None
    return P1, "the program clips after the step: the step used the gradients without a limit", _place(late[0]["at"])


def _empty_clip(_: Process, turn: dict[str, Any]) -> _Said:
    empty = [clip for clip in turn["clips"] if not clip["tensors"]]
    message = "the clip got no parameters (an iterator that something else consumed?): nothing is clipped"
    return (P1, message, _place(empty[0]["at"])) if empty else None


def _partial_clip(process: Process, turn: dict[str, Any]) -> _Said:
    """A clip that leaves out parameters: P2 if these are whole parts of the model."""
    clips, left, count = [clip for clip in _acting(turn) if clip["mine"]], turn["uncovered"], turn["uncovered_count"]
    if not clips or not count:
        return None
    parts: list[set[tuple[str, str]]] = [set(), set()]
    for index in _where(process, lambda each: _stepped(process, each)):
        parts[index in left].add((process.parameters[index]["root"], process.parameters[index]["part"]))
    message = f"the clip leaves out {_names(process, left)}: the step uses {count} gradients without a limit"
    is_whole = count == len(left) and not parts[0] & parts[1]
    return P2 if is_whole else P1, message, _place(clips[-1]["at"])


def _unbounded(_: Process, turn: dict[str, Any]) -> _Said:
    """A clip by the 2-norm of whole tensors, finite and not unscaled afterwards, that is not what the step meets."""
    unscaled = max(_changing(turn, "unscale"), default=-1)
    clips = [
        clip
        for clip in _acting(turn)
        if clip["kind"] == 2.0
        and not clip["shards"]
        and math.isfinite(clip["before"])
        and 0 < clip["mine"] == clip["tensors"]
        and clip["position"] > unscaled
    ]
    if not clips:
        return None
    norm, limit, place = clips[-1]["at_step"], clips[-1]["limit"], _place(clips[-1]["at"])
    if math.isfinite(limit) and norm > limit * (1 + _TOLERANCE) + 1e-6:
        return P1, f"the norm at the step is {norm:.4g}, and the clip's limit is {limit:.4g}", place
    due = min([clips[-1]["before"], *(each["limit"] for each in clips)])
    if norm < 0.5 * due:
        return P1, f"the norm at the step is {norm:.4g}, and the clip left {due:.4g}: something shrank it", place
    return None


def _scaled_clip(_: Process, turn: dict[str, Any]) -> _Said:
    for clip in _acting(turn):
        if clip["position"] < max(_changing(turn, "unscale"), default=-1):
            message = (
                "the clip meets gradients that still contain the scaler's factor: their norm is "
                f"{clip['before']:.4g} and the limit {clip['limit']:.4g}. Call scaler.unscale_(optimizer) before it"
            )
            return P1, message, _place(clip["at"])
    return None


# Ranks.


_Group = tuple[str, int]  # a group of ranks by its name, and an optimizer by its index
_Digests = dict[int, list[Any]]  # by rank: a digest of all gradients, one of all values, and both for each parameter


def replicas_drift(run: Recording) -> Iterator[Broken]:
    compared = False
    for job in run.jobs():
        equal_at: dict[_Group, int] = {}
        differ: dict[_Group, list[tuple[int, _Digests]]] = defaultdict(list)
        for (step, optimizer, key), ranks in sorted(_replicas(job).items()):
            compared = compared or len(ranks) > 1
            group = (key, optimizer)
            if group in differ or _odd(ranks, 0) or _odd(ranks, 1):
                differ[group].append((step, ranks))
            else:
                equal_at[group] = step
        for group, found in differ.items():
            yield _drift({process.rank: process for process in job}, group, equal_at.get(group, -1) + 1, found)
    if not compared:
        alone = run.world == 1
        raise NotShown("one process trained" if alone else "no DDP, DTensor or device mesh shows what is replicated")


def _replicas(job: list[Process]) -> dict[tuple[int, int, str], _Digests]:
    """The digests of each step, optimizer and group of ranks."""
    groups: dict[tuple[int, int, str], _Digests] = defaultdict(dict)
    for process in job:
        for turn in process.turns:
            for key, digests in turn["replicas"].items():
                groups[turn["step"], turn["optimizer"], key][process.rank] = digests
        for optimizer, (step, replicas) in process.final.items():
            for key, digests in replicas.items():
                groups[step, int(optimizer), key][process.rank] = digests
    return groups


def _drift(processes: dict[int, Process], group: _Group, since: int, found: list[tuple[int, _Digests]]) -> Broken:
    """The finding about one group, from its digests in the first step that differs and in all later ones."""
    (key, optimizer), (step, ranks) = group, found[0]
    column = 0 if _odd(ranks, 0) else 1
    odd = _odd(ranks, column)
    process = processes[min(ranks)]
    what = ("gradients differ before the step", "values differ after the step")[column]
    place = _step(process, [optimizer]) if column else _backward(process.turns_of(optimizer, step))
    clipping = [clips[0] for each in processes.values() if (clips := _clips_at(each, step, optimizer))]
    if column == 0 and 0 < len(clipping) < len(processes):
        place, what = _place(clipping[0]["at"]), f"{what}: not every rank clips"
    # With many ranks, only some steps have the digests of each parameter.
    named = next((differing for _, each in found if (differing := _different(each, column + 1))), [])
    names = _names(process, named) if named else "some parameters"
    among = f"between ranks {sorted(ranks)} ({key})" if len(ranks) <= _FEW_RANKS else f"in {key}"
    where = f", on {named_ranks(odd)} only" if len(odd) < len(ranks) else ""
    when = f", in a step between {since} and {step}" if since < step else ""
    measured = (("parameters_that_drift", len(named), "count"),)
    message = f"{names}: {what} {among}{where}{when}"
    return Broken(P0, message, place, since, f"{key} {optimizer}", tuple(odd), measured)


_FEW_RANKS = 8


def named_ranks(ranks: Sequence[int]) -> str:
    """`ranks 0, 1`, at most eight of them by number."""
    return f"ranks {listed([str(rank) for rank in ranks], _FEW_RANKS)}"


def _odd(ranks: _Digests, column: int) -> list[int]:
    """The ranks whose digest is not that of most; all of them without a majority; none if all are equal."""
    counts = Counter(digests[column] for digests in ranks.values())
    usual, count = counts.most_common(1)[0]
    if len(counts) == 1:
        return []
    return sorted(rank for rank, digests in ranks.items() if 2 * count <= len(ranks) or digests[column] != usual)


def _clips_at(process: Process, step: int, optimizer: int) -> list[Any]:
    return [clip for turn in process.turns_of(optimizer, step) for clip in turn["clips"]]


def _different(ranks: _Digests, column: int) -> list[int]:
    """Parameters whose digests are not equal on all ranks that kept them, by their index on the first rank."""
    rows = [kept for rank in sorted(ranks) if (kept := ranks[rank][2])]
    return [row[0][0] for row in zip(*rows, strict=False) if len({each[column] for each in row}) > 1]


def _share_data(run: Recording) -> Iterator[Broken]:
    shown = False
    for job in run.jobs():
        for kind, group, optimizer in sorted(_groups_of_ranks(job)):
            members = [process.turns_of(optimizer) for process in job if process.rank in group]
            inputs = [{turn["step"]: turn["inputs"] for turn in turns if turn["inputs"]} for turns in members]
            common = sorted(set.intersection(*map(set, inputs))) if len(inputs) > 1 else []
            if len(common) < 3:
                continue
            shown = True
            distinct = [len({each[step] for each in inputs}) for step in common]
            varies = len({each[step] for each in inputs for step in common}) > 1
            ranks, place = tuple(sorted(group)), _backward(members[0])
            if kind == "dp" and varies and all(count < len(inputs) for count in distinct):
                message = (
                    f"ranks {list(ranks)} train on equal inputs in all {len(common)} inspected steps: "
                    "use a DistributedSampler or a seed for each rank"
                )
                yield Broken(P1, message, place, common[0], "equal", ranks)
            if kind == "tp" and all(count > 1 for count in distinct):
                message = f"the tensor-parallel ranks {list(ranks)} get different inputs in all inspected steps"
                yield Broken(P1, message, place, common[0], "differ", ranks)
    if not shown:
        raise NotShown("one process trained" if run.world == 1 else "no group of ranks with recorded inputs is known")


def _groups_of_ranks(job: list[Process]) -> set[tuple[str, tuple[int, ...], int]]:
    """Data-parallel and tensor-parallel groups, each with an optimizer of the parameters that they replicate."""
    found: set[tuple[str, tuple[int, ...], int]] = set()
    for process in job:
        for each in process.parameters:
            kind = each["replicas"].partition(" ")[0]
            kind = "tp" if kind == "mesh" else kind
            if kind in ("dp", "tp"):
                group = tuple(process.groups[each["replicas"]])
                found.update((kind, group, optimizer) for optimizer in each["optimizers"])
    return found


def _weigh_differently(run: Recording) -> Iterator[Broken]:
    """Compare the losses of one line in one optimizer's step, of all ranks, whose gradients are equal."""
    shown = False
    found: dict[Place, list[tuple[float, int, set[int]]]] = defaultdict(list)
    for job in run.jobs():
        entries: dict[tuple[int, int, Place], list[tuple[int, Any]]] = defaultdict(list)
        for process in job:
            for turn in process.turns:
                for file, line, function, *rest in turn["weights"]:
                    key = turn["step"], turn["optimizer"], (file, line, function)
                    entries[key].append((process.rank, rest))
        for (step, _, place), calls in entries.items():
            shown = shown or len(calls) > 1
            valid, upstream = ([abs(rest[n]) for _, rest in calls] for n in (0, 2))
            if min(valid) and 0 < max(upstream) <= min(upstream) * (1 + _TOLERANCE):
                ratio = max(valid) / min(valid)
                if ratio > 1 + _TOLERANCE and any(rest[0] != rest[1] for _, rest in calls):
                    found[place].append((ratio, step, {rank for rank, _ in calls}))
    for place, steps in found.items():
        worst = max(ratio for ratio, *_ in steps)
        message = (
            f"a target of one micro-batch weighs up to {worst:.3g} times one of another: each micro-batch's mean "
            "counts alike although their numbers of valid targets differ. Divide by all valid targets of the step"
        )
        ranks = tuple(sorted(set[int]().union(*(ranks for *_, ranks in steps))))
        yield Broken(P1, message, place, steps[0][1], "", ranks, (("weight_ratio", worst, "ratio"),))
    if not shown:
        raise NotShown("no step summed several mean cross_entropy losses of one line")


# State, logs and cost.


def _resume(process: Process) -> Iterator[Broken]:
    loads = process.checkpoints["loads"]
    for load in loads:
        place, step, file = _place(load["at"]), load["step"], load["path"].rpartition("/")[2] or "the checkpoint"
        after = "at the first step after its load"

        def broken(severity: Severity, what: str, message: str) -> Broken:
            return Broken(severity, message, place, step, f"{file} {what}")  # noqa: B023

        for state in load["weights"]:
            matched = state["equal"] + state["differ"]
            if state["differ"] and (load["holds_optimizer"] or state["differ"] > 0.8 * (matched + state["absent"])):
                message = f"{state['differ']} of {matched} parameters differ from {file} {after}: "
                yield broken(P0, "weights", message + ", ".join(state["different"][:_NAMED]))
            elif state["renamed"] and not matched:
                yield broken(P0, "names", f"nothing of {file} is in the model {after}: the names differ by a prefix")
        for state in load["optimizers"]:
            if state["matches"] and state["different"]:
                message = f"the optimizer's state differs from {file} in {state['different']} tensors {after}"
                yield broken(P0, "optimizer", message)
        together = [state for each in loads if each["step"] == step for state in each["optimizers"]]
        if any(state["matches"] and state["equal"] and not state["different"] for state in together):
            at = max(load["schedulers"], default=0)
            scheduled = any(state["matches"] and state["is_scheduled"] for state in load["optimizers"])
            if load["fresh_schedulers"] and (at or scheduled):
                held = f"its step {at}" if at else "the rates of a schedule on its way, and not the scheduler"
                message = f"the optimizer is resumed and {load['fresh_schedulers'][0]} begins anew: {file} holds {held}"
                yield broken(P1, "scheduler", message)
            if load["random"]:
                whose = ", ".join(load["random"])
                message = f"{file} holds a random state of {whose}, and nothing restored it before the first step"
                yield broken(P2, "random", message)


def _logged_norm(run: Recording) -> Iterator[Broken]:
    shown = False
    for process, processes in ((each, {one.rank: one for one in job}) for job in run.jobs() for each in job):
        wrong: list[Broken] = []
        for turn, clip in ((each, clip) for each in process.turns for clip in each["clips"]):
            if clip["returned"] is None or clip["kind"] != 2.0 or not clip["before"]:
                continue
            true = _whole_norm(processes, process.rank, turn, clip) if clip["shards"] else clip["before"]
            if true is None:
                continue
            shown = True
            off = abs(clip["returned"] - true) / true if math.isfinite(true) else 0.0
            if not off <= _TOLERANCE:
                over = "over all ranks that hold their shards is" if clip["shards"] else "is"
                text = f"clip_grad_norm_ returned {clip['returned']:.4g}, and the norm of its gradients {over} "
                text += f"{true:.4g}"
                measured, ranks = (("norm_error", off, "ratio"),), (process.rank,)
                wrong.append(Broken(P1, text, _place(clip["at"]), turn["step"], "", ranks, measured))
        yield from wrong[:1]
        for recorded in process.data.get("recorded", ()):
            shown = shown or bool(recorded.get("returned"))
            yield from _collected(process, recorded)
    if not shown:
        raise NotShown("no clip and no collector returned a number as the norm of gradients that are known as a whole")


def _collected(process: Process, recorded: dict[str, Any]) -> Iterator[Broken]:
    """Yield the first wrong number of a recorded collector.

    With several ranks, a number that fits no statistic of this rank may be one over all of them, and is no finding. A
    norm of 0 is right for parameters that never get a gradient.
    """
    call = recorded["call"]
    for each in recorded.get("returned", ()):
        value, true = each["value"], each["norm"]
        place, step, turn = each["called"]
        file, _, line = place.rpartition(":")
        at = (file, int(line), "")
        used = [other["norm"] for other in process.turns if other["turn"] in (turn, turn - 1) and other["norm"]]
        if not true and not value and used and each["had_gradient"]:
            message = f"{call} returned 0: its gradients are zeroed already. Those of the step have norm {used[-1]:.4g}"
            yield Broken(P1, message, at, step, call, (process.rank,))
            return
        is_norm = "norm" in call.rpartition(":")[2].lower()
        if not is_norm or not true or not math.isfinite(true) or statistic(each):
            continue
        if process.world == 1 or not math.isfinite(value):
            message = f"{call} returned {value:.4g}, and the norm of the gradients that it was given is {true:.4g}"
            measured = (("norm_error", abs(value - true) / true, "ratio"),)
            severity = P3 if math.isfinite(value) else P1
            yield Broken(severity, message, at, step, call, (process.rank,), measured)
            return


def statistic(returned: dict[str, Any]) -> str:
    """Return which statistic of its gradients a collector returned, within 1 %; "" for none."""
    norm, count, tensors = returned["norm"], max(1, returned["elements"]), max(1, returned["tensors"])
    known = {
        "norm": norm, "squared norm": norm * norm, "root mean square": norm / math.sqrt(count),
        "largest element": returned["largest"], "1-norm": returned["sum"], "mean element": returned["sum"] / count,
        "sum of norms": returned["norms"], "mean norm": returned["norms"] / tensors,
    }  # fmt: skip
    return next((name for name, one in known.items() if abs(returned["value"] - one) <= _TOLERANCE * one), "")


def _whole_norm(processes: dict[int, Process], rank: int, turn: dict[str, Any], clip: dict[str, Any]) -> float | None:
    """The norm over all ranks, from what each recorded of the same clip; None if one of them did not."""
    parts = []
    for key, own in clip["shards"].items():
        for other in processes[rank].groups[key] if key else [rank]:
            clips = _clips_at(processes[other], turn["step"], turn["optimizer"]) if other in processes else []
            same = [each["shards"].get(key) or 0.0 for each in clips if each["at"] == clip["at"]]
            if other != rank and not same:
                return None
            parts.append(own if other == rank else same[0])
    return math.hypot(*parts)


def _wait(process: Process) -> Iterator[Broken]:
    """Compare reads per step; on a GPU also the synchronizations of which torch warned, which then decide."""
    turns = [turn for turn in process.turns if not turn["eval"]]
    warned = [turn for turn in turns if turn["syncs_measured"]]
    counts, per_step = _per_step(turns, "reads")
    message, measured = f"a step reads {per_step:.3g} values from tensors", [("reads_per_step", per_step, "count")]
    if warned:
        counts, per_step = _per_step(warned, "syncs")
        message += f" and waits {per_step:.3g} times for the GPU (set_sync_debug_mode): "
        measured.insert(0, ("syncs_per_step", per_step, "count"))
    else:
        message += "; each makes the CPU wait for a GPU. By line: "
    if per_step < 0.5:
        return
    worst = sorted(counts, key=lambda place: -counts[place])
    message += ", ".join(f"{place[0].rpartition('/')[2]}:{place[1]} ({counts[place]:.3g})" for place in worst[:4])
    on_cuda = process.device[0] == "cuda"
    severity = (P2 if per_step >= 10 else P3) if on_cuda else (P3 if per_step >= 2 else P4)
    evidence = Evidence.MEASURED if on_cuda else Evidence.SIMULATED
    yield Broken(severity, message, worst[0], turns[0]["step"], "", (), tuple(measured), evidence)


def _per_step(turns: list[dict[str, Any]], what: str) -> tuple[dict[Place, float], float]:
    """Return counts per inspected step, by place and in all."""
    counts: dict[Place, float] = defaultdict(float)
    steps = max(1, len({turn["turn"] for turn in turns}))
    for turn in turns:
        for file, line, function, count in turn[what]:
            counts[file, line, function] += count / steps
    return counts, sum(counts.values())


def _looks(process: Process) -> list[tuple[int, int, int]]:
    """Step, bytes and graph nodes of each inspection of memory; too few to judge are none."""
    found = [(turn["step"], *turn["memory"]) for turn in process.turns if turn["memory"]]
    return found if len(found) > 2 else []


def _memory_grows(process: Process) -> Iterator[Broken]:
    looks = _looks(process)
    for column, what, unit in ((1, "bytes of living tensors", "bytes"), (2, "nodes of living graphs", "count")):
        if looks and all(later[column] > earlier[column] for earlier, later in pairwise(looks)):
            per_step = (looks[-1][column] - looks[0][column]) / max(1, looks[-1][0] - looks[0][0])
            if unit == "count" or per_step >= 4:
                holder = process.holders[-1] if process.holders else None
                held = f", held by `{holder[3]}`" if holder else ""
                message = f"{what} grow in every inspected step after the first 20: {per_step:,.3g} per step{held}"
                place, measured = holder or _backward(process.turns), ((f"{unit}_per_step", per_step, unit),)
                yield Broken(P3, message, _place(place), looks[0][0], "", (), measured)
                return


def _schedules(process: Process) -> Iterator[Broken]:
    for optimizer in process.stepping:
        if optimizer["always_zero_rate"] and optimizer["inspected"] >= 3:
            message = f"the learning rate of {optimizer['name']} is 0 in all {optimizer['inspected']} inspected steps"
            yield Broken(P2, message, _place(optimizer["first_line"]), 0, "zero")
    for each in process.schedulers:
        message, name = "", each["name"]
        if each["optimizer"] is None and each["steps"] > 2 and process.stepping:
            message = f"{name} changes the rates of an optimizer ({each['owner']}) that never steps"
        elif (each["early"] or 0) > 1 and not process.checkpoints["loads"]:
            message = f"{name} stepped before the optimizer's first step: the first learning rate is skipped"
        if message:
            yield Broken(P2, message, _place(each["place"]), 0, name)


def _eval_mode(process: Process) -> Iterator[Broken]:
    for step, count, place in process.evaluated[:1]:
        message = (
            f"{count} modules with dropout or batch norm trained before and are in eval mode during this backward: "
        )
        yield Broken(P2, message + "call model.train() after the evaluation", _place(place), step)


LAWS = (
    Law("optimizer_misses_parameters", "The optimizer misses parameters", P0,
        "Pass every trained parameter to the optimizer, after the model has its last form", of_process=_misses),
    Law("trained_parameters_stay", "Parameters with gradients never change", P0,
        "Look for a step that is applied to a copy, or values that are restored after each step", of_process=_stay),
    Law("gradients_lost_or_stale", "Gradients are lost before the step, or kept after it", P0,
        "Zero the gradients once, between a step and the next backward", ("step", "events"),
        _in_turns(_stale, _zeroed_before_step, _lost_batch), shown=lambda process: list(_whole(process)),
        unshown="no two neighbouring steps of an optimizer were inspected"),
    Law("replicas_drift", "Replicated parameters differ between ranks", P0,
        "Synchronize gradients on every rank and let every rank do the same with them", of_run=replicas_drift),
    Law("resumed_state_differs", "What a load restored differs from what was saved", P0,
        "Load model and optimizer before the first step, with matching names", ("step", "events"), _resume,
        shown=lambda process: process.checkpoints["loads"], unshown="no step followed a torch.load of a checkpoint"),
    Law("parameters_get_no_gradient", "Trained parameters get no gradient", P1,
        "Remove the detach or no_grad between these modules and the loss, or freeze them", ("step", "modules"),
        of_run=_get_no_gradient, shown=lambda process: not process.compiles,
        unshown="the program compiles its model, and auditkit puts no wrapper around compiled modules"),
    Law("frozen_parameters_move", "Frozen parameters change in a step", P1,
        "Set their .grad to None when freezing, or keep them out of the optimizer", of_process=_frozen_move,
        shown=lambda process: process.unfrozen or _where(process, lambda p: not p["requires_grad"] and p["optimizers"]),
        unshown="no optimizer has a frozen parameter"),
    Law("clip_misses_the_step", "A clip does not limit the step", P1,
        "Clip all parameters of the optimizer, once, between the last backward and the step", ("step", "events"),
        _in_turns(_late_clip, _empty_clip, _partial_clip, _unbounded),
        shown=lambda process: any(turn["clips"] for turns in _whole(process) for turn in turns),
        unshown="the program calls no clip_grad_norm_ or clip_grad_value_"),
    Law("clip_on_scaled_gradients", "A clip meets gradients with a scaler's factor", P1,
        "Call scaler.unscale_(optimizer) before the clip", ("step", "events"), _in_turns(_scaled_clip),
        shown=lambda process: any(_changing(turn, "unscale") for turns in _whole(process) for turn in turns),
        unshown="no scaler unscaled a gradient"),
    Law("nonfinite_step_is_applied", "NaN or inf reaches the weights", P1,
        "Skip steps whose gradient norm is not finite, and go back to the last good checkpoint", of_process=_nonfinite),
    Law("ranks_share_data", "Ranks train on the same data", P1,
        "Give each data-parallel rank its own part of the data", ("step", "modules"), of_run=_share_data),
    Law("tokens_weigh_differently", "Targets of different micro-batches differ in weight", P1,
        "Sum the losses and divide by the number of valid targets of the whole step", ("step", "events"),
        of_run=_weigh_differently),
    Law("logged_norm_is_wrong", "A logged gradient norm is wrong", P1,
        "Compute the norm in float32 over all gradients and ranks, after the last backward and before zero_grad",
        ("step", "events"), of_run=_logged_norm),
    Law("schedule_does_not_act", "A learning-rate schedule does not act", P2,
        "Build the scheduler on the optimizer that steps, and step it after that optimizer", of_process=_schedules),
    Law("eval_mode_in_training", "Modules train in eval mode", P2,
        "Call model.train() after every evaluation", ("step", "modules"), _eval_mode),
    Law("step_waits_for_the_device", "A training step waits for the device", P2,
        "Keep values on the device and read them every few hundred steps", ("step", "reads"), _wait,
        shown=lambda p: any(not turn["eval"] and (turn["syncs_measured"] or not p.compiles) for turn in p.turns),
        unshown="each inspected step had an evaluation in it, or the program compiles: auditkit wraps no tensor there"),
    Law("memory_grows_with_steps", "Memory grows with every step", P3,
        "Keep numbers (loss.item()) or detached tensors, and not graphs", of_process=_memory_grows, shown=_looks,
        unshown="fewer than three inspections of memory after step 20"),
    Law("low_precision_updates_vanish", "Updates of 16-bit parameters vanish", P3,
        "Keep float32 master weights, or use stochastic rounding", of_process=_vanish,
        shown=lambda process: _where(process, lambda each: each["vanished"]),
        unshown="no optimizer updates a 16-bit parameter"),
)  # fmt: skip
