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
    since: int
    about: str = ""
    ranks: tuple[int, ...] = ()
    measured: tuple[tuple[str, float, str], ...] = ()
    evidence: Evidence = Evidence.MEASURED


class NotShown(Exception):
    """The run cannot show whether the law holds; the message says why."""


@dataclass(frozen=True)
class Law:
    """One row of the table: `instruments` are those whose failure makes the law an error."""

    id: str
    title: str
    severity: Severity
    check: Callable[[Recording], Iterable[Broken]]
    remedy: str
    instruments: tuple[str, ...] = ("step",)


# What several laws read.


def _names(process: Process, indexes: list[int]) -> str:
    """`a.weight, a.bias, b.weight and 12 more`."""
    shown = ", ".join(process.name_of(index) for index in indexes[:_NAMED])
    more = len(indexes) - _NAMED
    return f"{shown} and {more} more" if more > 0 else shown


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
    for index in optimizers:
        if process.optimizers[index]["first_line"][0]:
            return _place(process.optimizers[index]["first_line"])
    return ("", 0, "")


def _indexed(process: Process) -> Iterator[tuple[int, dict[str, Any]]]:
    yield from enumerate(process.parameters)


def _stepped(process: Process, parameter: dict[str, Any]) -> list[int]:
    """The optimizers that hold a parameter and made an inspected step."""
    return [index for index in parameter["optimizers"] if process.optimizers[index]["inspected"]]


def _whole(process: Process) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Each optimizer with its turns of which everything was recorded."""
    for optimizer in process.stepping:
        turns = [turn for turn in process.turns_of(optimizer["index"]) if turn["whole"]]
        if turns:
            yield optimizer, turns


def _all_of(turns: list[dict[str, Any]], found: list[Any]) -> bool:
    """Whether a pattern is the program's rule: it happened twice, or in every recorded turn."""
    return len(found) >= 2 or (bool(found) and len(found) == len(turns))


# Parameters and their optimizer.


def optimizer_misses_parameters(run: Recording) -> Iterator[Broken]:
    for process in run.trained:
        yield from _missing(process)
        yield from _stepped_twice(process)


def _missing(process: Process) -> Iterator[Broken]:
    groups: dict[str, list[int]] = defaultdict(list)
    for index, each in _indexed(process):
        if not each["optimizers"] and each["with_gradient"] >= 2 and not each["moved"]:
            groups[each["root"]].append(index)
    for root, missing in groups.items():
        held = {each["part"] for each in process.parameters if each["root"] == root and _stepped(process, each)}
        parts = {process.parameters[index]["part"] for index in missing}
        fixed = all(process.parameters[n]["owner_eval"] == process.parameters[n]["seen"] for n in missing)
        chosen = len(held) == 1 and not parts & held
        stale = [
            index
            for index, each in _indexed(process)
            if each["optimizers"] and not each["with_gradient"] and not each["name"] and each["seen"] >= 2
        ]
        what = (
            f"no optimizer has {_names(process, missing)}: gradients reach {'it' if len(missing) == 1 else 'them'}, "
            "and no step changes a value"
        )
        if stale:
            what += f"; the optimizer has {len(stale)} tensors that no module uses"
        elif fixed:
            what += " (their modules are in eval mode: freeze them with requires_grad_(False) if that is meant)"
        elif chosen:
            what += f" (the optimizer was built from {next(iter(held))} alone: freeze the others if that is meant)"
        severity = P2 if (fixed or chosen) and not stale else P0
        owner = process.stepping[0] if process.stepping else process.optimizers[0]
        place = _place(owner["place"] if owner["place"][0] else owner["first_line"])
        measured = (("parameters_missed", len(missing), "count"),)
        yield Broken(severity, what, place, 0, root, (process.rank,), measured)


def _stepped_twice(process: Process) -> Iterator[Broken]:
    pairs: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, each in _indexed(process):
        held = _stepped(process, each)
        for one, other in pairwise(held):
            first, second = process.optimizers[one], process.optimizers[other]
            if first["last_turn"] > second["first_turn"] and second["last_turn"] > first["first_turn"]:
                pairs[one, other].append(index)
    for (one, other), shared in pairs.items():
        names = f"{process.optimizers[one]['name']} and {process.optimizers[other]['name']}"
        message = f"two optimizers ({names}) step {_names(process, shared)}: each applies the same gradient"
        place = _step(process, [other])
        yield Broken(P1, message, place, 0, f"twice {one} {other}", (process.rank,))


def parameters_get_no_gradient(run: Recording) -> Iterator[Broken]:
    if all(process.compiles for process in run.trained):
        raise NotShown("the program compiles its model, and auditkit puts no wrapper around compiled modules")
    anywhere = {(each["root"], each["name"]) for p in run.trained for each in p.parameters if each["with_gradient"]}
    for process in run.trained:
        if any(_zeroed(turn) for turn in process.turns):
            continue  # the gradients were there, and are lost: that is another law's finding
        silent = [
            index
            for index, each in _indexed(process)
            if _stepped(process, each)
            and each["requires_grad"]
            and each["ran"] >= 2
            and not each["with_gradient"]
            # A rank may hold no element of a sharded parameter.
            and not (each["shards"] and (each["root"], each["name"]) in anywhere)
        ]
        reached = {_owner(each) for each in process.parameters if each["with_gradient"]}
        meant = [n for n in silent if process.parameters[n]["ran_without_grad"] == process.parameters[n]["ran"]]
        rest = [index for index in silent if index not in meant]
        whole = [index for index in rest if _owner(process.parameters[index]) not in reached]
        partly = [index for index in rest if index not in whole]
        place = _backward(process.turns)
        for severity, found, what in (
            (
                P1,
                whole,
                "Their modules run, but no gradient of the loss reaches them: detached or unused",
            ),
            (P2, partly, "Other parameters of the same modules get one: these are unused in this configuration"),
            (
                P2,
                meant,
                "Their modules run only under torch.no_grad(). If that is meant, as for a teacher, freeze them with "
                "requires_grad_(False) or leave them out of the optimizer",
            ),
        ):
            if found:
                message = f"{_names(process, found)}: no gradient in any inspected step. {what}"
                measured = (("parameters_without_gradient", len(found), "count"),)
                yield Broken(severity, message, place, 0, what[:9], (process.rank,), measured)


def _owner(parameter: dict[str, Any]) -> str:
    return f"{parameter['root']}:{parameter['name'].rpartition('.')[0]}"


def frozen_parameters_move(run: Recording) -> Iterator[Broken]:
    held = any(not each["requires_grad"] and each["optimizers"] for p in run.trained for each in p.parameters)
    if not held and not any(process.unfrozen for process in run.trained):
        raise NotShown("no optimizer has a frozen parameter")
    for process in run.trained:
        trained = [index for index in process.unfrozen if process.parameters[index]["changed"]]
        if trained:
            message = (
                f"{_names(process, trained)}: `requires_grad = False` on their module sets an attribute of the module, "
                "and the optimizer's step changes the parameters. Call module.requires_grad_(False)"
            )
            place = _step(process, process.parameters[trained[0]]["optimizers"])
            measured = (("parameters_not_frozen", len(trained), "count"),)
            yield Broken(P1, message, place, 0, "attribute", (process.rank,), measured)
        moved = [index for index, each in _indexed(process) if each["frozen_moved"] is not None]
        if moved:
            first = min(process.parameters[index]["frozen_moved"] for index in moved)
            message = (
                f"{_names(process, moved)}: frozen (requires_grad is False), and the optimizer's step changes them: "
                "they keep an old gradient, momentum or weight decay"
            )
            place = _step(process, process.parameters[moved[0]]["optimizers"])
            yield Broken(P1, message, place, first, "", (process.rank,), (("frozen_moved", len(moved), "count"),))


def trained_parameters_stay(run: Recording) -> Iterator[Broken]:
    for process in run.trained:
        stayed = [i for i, e in _indexed(process) if e["stayed"] and not e["changed"] and not e["moved"]]
        if stayed:
            message = (
                f"{_names(process, stayed)}: gradients are finite and not zero, the learning rate is not 0, and no "
                "inspected step changed a single bit"
            )
            place = _step(process, process.parameters[stayed[0]]["optimizers"])
            yield Broken(P0, message, place, 0, "", (process.rank,), (("parameters_stayed", len(stayed), "count"),))


# Gradients between backward and step.


def gradients_lost_or_stale(run: Recording) -> Iterator[Broken]:
    shown = False
    for process in run.trained:
        for optimizer, turns in _whole(process):
            shown = True
            for about, found in (
                ("stale", [(turn, place) for turn in turns if (place := _stale(turn))]),
                ("zeroed", [(turn, place) for turn in turns if (place := _zeroed(turn))]),
                ("micro-batch", [(turn, place) for turn in turns if (place := _lost_batch(turn))]),
            ):
                if _all_of(turns, found):
                    since = found[0][0]["step"]
                    message = _LOST[about].format(count=len(found), turns=len(turns))
                    yield Broken(P0, message, found[0][1], since, about + optimizer["name"], (process.rank,))
    if not shown:
        raise NotShown("no two neighbouring steps of an optimizer were inspected")


_LOST = {
    "stale": "the gradients of the step before were still there when the next backward began, in {count} of {turns} "
    "inspected steps: every step adds all earlier gradients. Call zero_grad() once per step",
    "zeroed": "gradients are zeroed between backward and step, in {count} of {turns} inspected steps: "
    "the step has nothing to apply. Move zero_grad() after the step",
    "micro-batch": "the gradient of a micro-batch is zeroed before any step uses it, in {count} of {turns} inspected "
    "steps: only the last one trains the model. Call zero_grad() only after a step",
}


def _touching(turn: dict[str, Any]) -> list[dict[str, Any]]:
    return [event for event in turn["events"] if event["kind"] == "backward" and event["changed"]]


def _stale(turn: dict[str, Any]) -> Place | None:
    backwards = _touching(turn)
    zeroed = any(event["kind"] == "zero_grad" and not event["after"][0] for event in turn["events"])
    fresh = any(event["kind"] == "backward" and not event["before"][0] for event in turn["events"])
    if not backwards or zeroed or fresh or not backwards[0]["stale"]:
        return None
    return _place(backwards[0]["at"])


def _zeroed(turn: dict[str, Any]) -> Place | None:
    backwards = _touching(turn)
    if not backwards or turn["at_step"][0] or not backwards[-1]["after"][0]:
        return None
    zeros = [event for event in turn["events"] if event["kind"] == "zero_grad"]
    return _place(zeros[-1]["at"] if zeros else turn["at"])


def _lost_batch(turn: dict[str, Any]) -> Place | None:
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
    return found if turn["at_step"][0] and not turn["edited"] else None


def clip_misses_the_step(run: Recording) -> Iterator[Broken]:
    clips = False
    for process in run.trained:
        for _, turns in _whole(process):
            clips = clips or any(turn["clips"] for turn in turns)
            for about, severity, find in (
                ("late", P1, _late_clip), ("nothing", P1, _empty_clip), ("part", P1, _partial_clip),
                ("above", P1, _unbounded), ("below", P1, _shrunk),
            ):  # fmt: skip
                found = [(turn, said) for turn in turns if (said := find(process, turn))]
                if _all_of(turns, found):
                    turn, (message, place, whole_parts) = found[0]
                    worst = P2 if whole_parts else severity
                    yield Broken(worst, message, place, turn["step"], about, (process.rank,))
    if not clips:
        raise NotShown("the program calls no clip_grad_norm_ or clip_grad_value_")


_Said = tuple[str, Place, bool]


def _acting(turn: dict[str, Any]) -> list[dict[str, Any]]:
    """The clips of a turn that met new gradients."""
    events = turn["events"]
    first = next((n for n, event in enumerate(events) if event["kind"] == "backward" and event["changed"]), len(events))
    return [clip for clip in turn["clips"] if clip["position"] > first or not events[clip["position"]]["stale"]]


def _late_clip(_: Process, turn: dict[str, Any]) -> _Said | None:
    late = [clip for clip in turn["clips"] if clip["before"]]
    if not late or _acting(turn):
        return None
    return "the program clips after the step: the step used the gradients without a limit", _place(late[0]["at"]), False


def _empty_clip(_: Process, turn: dict[str, Any]) -> _Said | None:
    empty = [clip for clip in turn["clips"] if not clip["tensors"]]
    if not empty:
        return None
    message = "the clip got no parameters (an iterator that something else consumed?): nothing is clipped"
    return message, _place(empty[0]["at"]), False


def _partial_clip(process: Process, turn: dict[str, Any]) -> _Said | None:
    clips = [clip for clip in _acting(turn) if clip["mine"]]
    if not clips or not turn["uncovered_count"]:
        return None
    left = turn["uncovered"]
    inside = {
        (each["root"], each["part"]) for n, each in _indexed(process) if _stepped(process, each) and n not in left
    }
    outside = {(process.parameters[index]["root"], process.parameters[index]["part"]) for index in left}
    count = turn["uncovered_count"]
    message = f"the clip leaves out {_names(process, left)}: the step uses {count} gradients without a limit"
    return message, _place(clips[-1]["at"]), count == len(left) and not inside & outside


def _norm_clips(turn: dict[str, Any]) -> list[dict[str, Any]]:
    """Clips by the 2-norm of whole tensors, in turns whose gradients are finite and not unscaled afterwards."""
    clips = [clip for clip in _acting(turn) if clip["kind"] == 2.0 and clip["mine"] and not clip["shards"]]
    unscaled = [n for n, event in enumerate(turn["events"]) if event["kind"] == "unscale" and event["changed"]]
    return [
        clip
        for clip in clips
        if math.isfinite(clip["before"])
        and clip["mine"] == clip["tensors"]
        and not any(n > clip["position"] for n in unscaled)
    ]


def _unbounded(_: Process, turn: dict[str, Any]) -> _Said | None:
    for clip in _norm_clips(turn)[-1:]:
        if clip["at_step"] > clip["limit"] * (1 + _TOLERANCE) + 1e-6 and math.isfinite(clip["limit"]):
            message = f"the norm at the step is {clip['at_step']:.4g}, and the clip's limit is {clip['limit']:.4g}"
            return message, _place(clip["at"]), False
    return None


def _shrunk(_: Process, turn: dict[str, Any]) -> _Said | None:
    clips = _norm_clips(turn)
    for clip in clips[-1:]:
        due = min([clip["before"], *(each["limit"] for each in clips)])
        if due and clip["at_step"] < 0.5 * due:
            message = f"the norm at the step is {clip['at_step']:.4g}, and the clip left {due:.4g}: something shrank it"
            return message, _place(clip["at"]), False
    return None


def clip_on_scaled_gradients(run: Recording) -> Iterator[Broken]:
    scaled = False
    for process in run.trained:
        for _, turns in _whole(process):
            found = []
            for turn in turns:
                events = turn["events"]
                last = max(
                    (n for n, event in enumerate(events) if event["kind"] == "unscale" and event["changed"]), default=-1
                )
                scaled = scaled or last >= 0
                early = [clip for clip in _acting(turn) if clip["position"] < last]
                found += [(turn, each) for each in early[:1]]
            if _all_of(turns, found):
                turn, clip = found[0]
                message = (
                    "the clip meets gradients that still contain the scaler's factor: their norm is "
                    f"{clip['before']:.4g} and the limit {clip['limit']:.4g}. Call scaler.unscale_(optimizer) before it"
                )
                yield Broken(P1, message, _place(clip["at"]), turn["step"], "", (process.rank,))
    if not scaled:
        raise NotShown("no scaler unscaled a gradient")


def nonfinite_step_is_applied(run: Recording) -> Iterator[Broken]:
    for process in run.trained:
        bad = [index for index, each in _indexed(process) if each["bad_value"] is not None]
        if bad:
            first = min(process.parameters[index]["bad_value"] for index in bad)
            turns = [turn for turn in process.turns if turn["bad_counts"][1]]
            before = max((turn["step"] for turn in process.turns if turn["step"] < first), default=-1)
            since = f"between steps {before + 1} and {first}" if first - before > 1 else f"in step {first}"
            grads = [index for index in bad if process.parameters[index]["bad_gradient"] == first]
            cause = f"; the gradients of {len(grads)} were NaN or inf at that step" if grads else ""
            message = f"{_names(process, bad)} became NaN or inf {since}{cause}"
            place = _place(turns[0]["at"]) if turns else _step(process, [0])
            yield Broken(P1, message, place, before + 1, "values", (process.rank,), (("nonfinite", len(bad), "count"),))
        for optimizer in process.optimizers:
            if optimizer["attempts"] >= 5 and not optimizer["steps"]:
                message = f"the scaler skipped all {optimizer['attempts']} steps: every gradient held NaN or inf"
                yield Broken(P1, message, _place(optimizer["place"]), 0, "skipped", (process.rank,))


# Ranks.


_Group = tuple[str, int]  # a group of ranks by its name, and an optimizer by its index
_Digests = dict[int, list[Any]]  # by rank: a digest of all gradients, one of all values, and both for each parameter


def replicas_drift(run: Recording) -> Iterator[Broken]:
    compared = False
    for job in run.jobs():
        processes = {process.rank: process for process in job}
        equal_at: dict[_Group, int] = {}
        first: dict[_Group, tuple[int, int, list[_Digests]]] = {}
        for (step, optimizer, key), ranks in sorted(_replicas(job).items()):
            compared = compared or len(ranks) > 1
            group = (key, optimizer)
            if group in first:
                first[group][2].append(ranks)
            elif len(ranks) > 1 and any(_odd(ranks, column) for column in (0, 1)):
                first[group] = (equal_at.get(group, -1) + 1, step, [ranks])
            else:
                equal_at[group] = step
        for group, (since, step, digests) in first.items():
            yield _drift(processes, group, since, step, digests)
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


def _drift(processes: dict[int, Process], group: _Group, since: int, step: int, digests: list[_Digests]) -> Broken:
    """The finding about one group, from its digests in the first step that differs and in all later ones."""
    (key, optimizer), ranks = group, digests[0]
    column = 0 if _odd(ranks, 0) else 1
    odd = _odd(ranks, column)
    process = processes[min(ranks)]
    what = ("gradients differ before the step", "values differ after the step")[column]
    turns = [turn for turn in process.turns_of(optimizer) if turn["step"] == step]
    place = _backward(turns) if column == 0 else _step(process, [optimizer])
    clips = {rank: _clips_at(each, step, optimizer) for rank, each in processes.items()}
    clipping = [found[0] for found in clips.values() if found]
    if column == 0 and clipping and len(clipping) < len(clips):
        place, what = _place(clipping[0]["at"]), f"{what}: not every rank clips"
    # With many ranks, only some steps have the digests of each parameter.
    named = next((found for each in digests if (found := _different(each, column + 1))), [])
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
    more = len(ranks) - _FEW_RANKS
    return f"ranks {', '.join(map(str, ranks[:_FEW_RANKS]))}" + (f" and {more} more" if more > 0 else "")


def _odd(ranks: _Digests, column: int) -> list[int]:
    """The ranks whose digest is not that of most; all of them without a majority; none if all are equal."""
    counts = Counter(digests[column] for digests in ranks.values())
    usual, count = counts.most_common(1)[0]
    if len(counts) == 1:
        return []
    return sorted(rank for rank, digests in ranks.items() if 2 * count <= len(ranks) or digests[column] != usual)


def _clips_at(process: Process, step: int, optimizer: int) -> list[Any]:
    return [clip for turn in process.turns_of(optimizer) if turn["step"] == step for clip in turn["clips"]]


def _different(ranks: _Digests, column: int) -> list[int]:
    """Parameters whose digests are not equal on all ranks that kept them, by their index on the first rank."""
    rows = [kept for rank in sorted(ranks) if (kept := ranks[rank][2])]
    return [row[0][0] for row in zip(*rows, strict=False) if len({each[column] for each in row}) > 1]


def ranks_share_data(run: Recording) -> Iterator[Broken]:
    shown = False
    for job in run.jobs():
        for kind, group, optimizer in sorted(_groups_of_ranks(job)):
            members = [process for process in job if process.rank in group]
            inputs = [
                {turn["step"]: turn["inputs"] for turn in each.turns_of(optimizer) if turn["inputs"]}
                for each in members
            ]
            common = sorted(set.intersection(*map(set, inputs))) if len(inputs) > 1 else []
            if len(common) < 3:
                continue
            shown = True
            distinct = [len({each[step] for each in inputs}) for step in common]
            varies = len({each[step] for each in inputs for step in common}) > 1
            ranks, place = tuple(sorted(group)), _backward(members[0].turns_of(optimizer))
            if kind == "dp" and varies and all(count < len(inputs) for count in distinct):
                message = (
                    f"ranks {list(ranks)} train on equal inputs in all {len(common)} inspected steps: "
                    "use a DistributedSampler or a seed for each rank"
                )
                measured = (("steps_with_equal_inputs", len(common), "count"),)
                yield Broken(P1, message, place, common[0], "equal", ranks, measured)
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


def tokens_weigh_differently(run: Recording) -> Iterator[Broken]:
    shown = False
    for job in run.jobs():
        entries: dict[tuple[int, Place], list[tuple[int, Any]]] = defaultdict(list)
        for process in job:
            for turn in process.turns:
                for file, line, function, *rest in turn["weights"]:
                    entries[turn["step"], (file, line, function)].append((process.rank, rest))
        found: dict[Place, list[tuple[int, float]]] = defaultdict(list)
        for (step, place), calls in entries.items():
            if len(calls) < 2:
                continue
            shown = True
            ratio = _weight_ratio([rest for _, rest in calls])
            if ratio > 1 + _TOLERANCE:
                found[place].append((step, ratio))
        for place, steps in found.items():
            worst = max(ratio for _, ratio in steps)
            message = (
                f"a target of one micro-batch weighs up to {worst:.3g} times one of another: each micro-batch's mean "
                "counts alike although their numbers of valid targets differ. Divide by all valid targets of the step"
            )
            ranks = tuple(sorted({rank for (step, at), calls in entries.items() if at == place for rank, _ in calls}))
            yield Broken(P1, message, place, steps[0][0], "", ranks, (("weight_ratio", worst, "ratio"),))
    if not shown:
        raise NotShown("no step summed several cross_entropy losses of one line")


def _weight_ratio(calls: list[Any]) -> float:
    """The largest ratio of the weights of two targets; 1 if the losses differ by a factor that the program chose."""
    means = [(valid, upstream) for valid, total, mean, upstream in calls if mean and valid and upstream]
    sums = [abs(upstream) for _, _, mean, upstream in calls if not mean and upstream]
    ignores = any(valid != total for valid, total, mean, _ in calls if mean)
    if len(means) == len(calls) and ignores:
        upstreams = [abs(upstream) for _, upstream in means]
        if max(upstreams) <= min(upstreams) * (1 + _TOLERANCE):
            counts = [valid for valid, _ in means]
            return float(max(counts) / min(counts))
    if len(sums) == len(calls):
        return float(max(sums) / min(sums))
    return 1.0


# State, logs and cost.


_AFTER = "at the first step after its load"


def resumed_state_differs(run: Recording) -> Iterator[Broken]:
    loads = [(process, load) for process in run.trained for load in process.checkpoints["loads"]]
    if not loads:
        raise NotShown("no step followed a torch.load of a checkpoint")
    for process, load in loads:
        place, step, file = _place(load["at"]), load["step"], load["path"].rpartition("/")[2] or "the checkpoint"
        ranks = (process.rank,)
        if load["saved_digest"] and load["saved_digest"] != load["digest"]:
            yield Broken(P0, f"{file} holds other tensors than were saved to it", place, step, file, ranks)
        for state in load["weights"]:
            matched = state["equal"] + state["differ"]
            if state["differ"] and (load["holds_optimizer"] or state["differ"] > 0.8 * (matched + state["absent"])):
                shown = ", ".join(state["different"][:_NAMED])
                message = f"{state['differ']} of {matched} parameters differ from {file} {_AFTER}: {shown}"
                yield Broken(P0, message, place, step, f"{file} weights", ranks)
            elif state["renamed"] and not matched:
                message = f"nothing of {file} is in the model {_AFTER}: the names differ by a prefix"
                yield Broken(P0, message, place, step, f"{file} names", ranks)
        for state in load["optimizers"]:
            if state["matches"] and state["different"]:
                message = f"the optimizer's state differs from {file} in {state['different']} tensors {_AFTER}"
                yield Broken(P0, message, place, step, f"{file} optimizer", ranks)
            elif state["matches"] and [round(r, 12) for r in state["rates"]] != [
                round(r, 12) for r in state["rates_now"]
            ]:
                now, held = state["rates_now"][:3], state["rates"][:3]
                message = f"the learning rates after the load of {file} are {now}, and the file holds {held}"
                yield Broken(P2, message, place, step, f"{file} rates", ranks)
        resumed = any(
            state["matches"] and state["equal"] and not state["different"]
            for each in process.checkpoints["loads"]
            if each["step"] == step
            for state in each["optimizers"]
        )
        at = max(load["schedulers"], default=0)
        scheduled = any(state["matches"] and state["is_scheduled"] for state in load["optimizers"])
        if resumed and load["fresh_schedulers"] and (at or scheduled):
            held = f"holds its step {at}" if at else "holds the rates of a schedule on its way, and not the scheduler"
            message = f"the optimizer is resumed and {load['fresh_schedulers'][0]} begins anew: {file} {held}"
            yield Broken(P1, message, place, step, f"{file} scheduler", ranks)
        if resumed and load["random"]:
            whose = ", ".join(load["random"])
            message = f"{file} holds a random state of {whose}, and nothing restored it before the first step"
            yield Broken(P2, message, place, step, f"{file} random", ranks)


def logged_norm_is_wrong(run: Recording) -> Iterator[Broken]:
    returned = False
    for job in run.jobs():
        processes = {process.rank: process for process in job}
        for process in job:
            for turn in process.turns:
                wrong = None
                for clip in turn["clips"]:
                    if clip["returned"] is None or clip["kind"] != 2.0 or not clip["before"]:
                        continue
                    true = _whole_norm(processes, process.rank, turn, clip) if clip["shards"] else clip["before"]
                    if true is None:
                        continue
                    returned = True
                    off = abs(clip["returned"] - true) / true if math.isfinite(true) else 0.0
                    if not off <= _TOLERANCE and wrong is None:
                        message = f"clip_grad_norm_ returned {clip['returned']:.4g}, and the norm of its gradients "
                        message += f"{'over all ranks that hold their shards ' if clip['shards'] else ''}is {true:.4g}"
                        measured = (("norm_error", off, "ratio"),)
                        ranks = (process.rank,)
                        wrong = Broken(P1, message, _place(clip["at"]), turn["step"], "", ranks, measured)
                if wrong is not None:
                    yield wrong
                    break
    collected = [(process, each) for process in run.trained for each in process.data.get("recorded", ())]
    for process, each in collected:
        yield from _collected(process, each)
    if not returned and not any(each.get("returned") for _, each in collected):
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
        if not is_norm(call) or not true or not math.isfinite(true) or statistic(each):
            continue
        if process.world == 1 or not math.isfinite(value):
            message = f"{call} returned {value:.4g}, and the norm of the gradients that it was given is {true:.4g}"
            measured = (("norm_error", abs(value - true) / true, "ratio"),)
            severity = P3 if math.isfinite(value) else P1
            yield Broken(severity, message, at, step, call, (process.rank,), measured)
            return


def is_norm(call: str) -> bool:
    """Return whether a collector is named for a norm."""
    return "norm" in call.rpartition(":")[2].lower()


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
    square = 0.0
    for key, own in clip["shards"].items():
        for other in processes[rank].groups[key] if key else [rank]:
            clips = _clips_at(processes[other], turn["step"], turn["optimizer"]) if other in processes else []
            same = [each["shards"].get(key) for each in clips if each["at"] == clip["at"]]
            part = own if other == rank else (same[0] or 0.0) if same else None
            if part is None:
                return None
            square += part * part
    return math.sqrt(square)


def step_waits_for_the_device(run: Recording) -> Iterator[Broken]:
    turns = [turn for turn in run.main.turns if not turn["eval"]]
    if run.main.compiles and not any(turn["syncs_measured"] for turn in turns):
        raise NotShown("the program compiles its model, and auditkit puts no wrapper around tensors there")
    if not turns:
        raise NotShown("every inspected step had an evaluation in it")
    counts: dict[Place, int] = defaultdict(int)
    for turn in turns:
        for file, line, function, count in turn["reads"]:
            counts[file, line, function] += count
    read_per_step = per_step = sum(counts.values()) / len({turn["turn"] for turn in turns})
    measured_turns = [turn for turn in turns if turn["syncs_measured"]]
    if measured_turns:
        counts, turns = defaultdict(int), measured_turns
        for turn in turns:
            for file, line, function, count in turn["syncs"]:
                counts[file, line, function] += count
        per_step = sum(counts.values()) / len({turn["turn"] for turn in turns})
    if per_step < 0.5:
        return
    worst = sorted(counts, key=lambda place: -counts[place])
    lines = ", ".join(
        f"{place[0].rpartition('/')[2]}:{place[1]} ({counts[place] / len(turns):.3g})" for place in worst[:4]
    )
    on_cuda = run.main.device[0] == "cuda"
    severity = (P2 if per_step >= 10 else P3) if on_cuda else (P3 if per_step >= 2 else P4)
    measured: tuple[tuple[str, float, str], ...] = (("reads_per_step", read_per_step, "count"),)
    what = f"reads {read_per_step:.3g} values from tensors"
    message = f"a step {what}; each makes the CPU wait for a GPU. By line: {lines}"
    if measured_turns:
        message = f"a step {what} and waits {per_step:.3g} times for the GPU (set_sync_debug_mode): {lines}"
        measured = (("syncs_per_step", per_step, "count"), *measured)
    evidence = Evidence.MEASURED if on_cuda else Evidence.SIMULATED
    yield Broken(severity, message, worst[0], turns[0]["step"], "", (), measured, evidence)


def memory_grows_with_steps(run: Recording) -> Iterator[Broken]:
    looked = False
    for process in run.trained:
        found = [(turn["step"], *turn["memory"]) for turn in process.turns if turn["memory"]]
        if len(found) < 3:
            continue
        looked = True
        steps, sizes, nodes = zip(*found, strict=True)
        for what, values, unit in (
            ("bytes of living tensors", sizes, "bytes"),
            ("nodes of living graphs", nodes, "count"),
        ):
            rising = all(later > earlier for earlier, later in pairwise(values))
            per_step = (values[-1] - values[0]) / max(1, steps[-1] - steps[0])
            if rising and (unit == "count" or per_step >= 4):
                holder = process.holders[-1] if process.holders else None
                place = _place(holder) if holder else _backward(process.turns)
                held = f", held by `{holder[3]}`" if holder else ""
                message = f"{what} grow in every inspected step after the first 20: {per_step:,.3g} per step{held}"
                yield Broken(P3, message, place, steps[0], "", (process.rank,), ((f"{unit}_per_step", per_step, unit),))
                break
    if not looked:
        raise NotShown("fewer than three inspections of memory after step 20")


def low_precision_updates_vanish(run: Recording) -> Iterator[Broken]:
    half = False
    for process in run.trained:
        lost = []
        for index, each in _indexed(process):
            seen = each["vanished"][2:]
            half = half or bool(each["vanished"])
            if len(seen) >= 3 and all(fraction > 0.5 for _, fraction in seen):
                lost.append((index, sum(fraction for _, fraction in seen) / len(seen), seen[0][0]))
        if lost:
            lost.sort(key=lambda entry: -entry[1])
            shown = ", ".join(f"{process.name_of(index)} ({share:.0%})" for index, share, _ in lost[:_NAMED])
            more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
            message = (
                f"most sampled elements with a gradient do not change in a step: {shown}{more}. "
                "Keep float32 master weights or round stochastically"
            )
            place = _step(process, process.parameters[lost[0][0]]["optimizers"])
            measured = (("unchanged_elements", 100 * lost[0][1], "percent"),)
            yield Broken(P3, message, place, lost[0][2], "", (process.rank,), measured)
    if not half:
        raise NotShown("no optimizer updates a 16-bit parameter")


def schedule_does_not_act(run: Recording) -> Iterator[Broken]:
    for process in run.trained:
        for optimizer in process.stepping:
            if optimizer["always_zero_rate"] and optimizer["inspected"] >= 3:
                message = (
                    f"the learning rate of {optimizer['name']} is 0 in all {optimizer['inspected']} inspected steps"
                )
                yield Broken(P2, message, _place(optimizer["first_line"]), 0, "zero", (process.rank,))
        for scheduler in process.schedulers:
            place = _place(scheduler["at"] if "at" in scheduler else scheduler["place"])
            owner = scheduler["optimizer"]
            if owner is None and scheduler["steps"] > 2 and process.stepping:
                message = (
                    f"{scheduler['name']} changes the rates of an optimizer ({scheduler['owner']}) that never steps"
                )
                yield Broken(P2, message, place, 0, "other " + scheduler["name"], (process.rank,))
            elif (scheduler["early"] or 0) > 1 and not process.checkpoints["loads"]:
                message = (
                    f"{scheduler['name']} stepped before the optimizer's first step: the first learning rate is skipped"
                )
                yield Broken(P2, message, place, 0, "early " + scheduler["name"], (process.rank,))


def eval_mode_in_training(run: Recording) -> Iterator[Broken]:
    for process in run.trained:
        if process.evaluated:
            step, count, place = process.evaluated[0]
            message = (
                f"{count} modules with dropout or batch norm trained before and are in eval mode during this backward: "
                "call model.train() after the evaluation"
            )
            yield Broken(
                P2, message, _place(place), step, "", (process.rank,), (("modules_in_eval_mode", count, "count"),)
            )


LAWS = (
    Law("optimizer_misses_parameters", "The optimizer misses parameters", P0, optimizer_misses_parameters,
        "Pass every trained parameter to the optimizer, after the model has its last form"),
    Law("trained_parameters_stay", "Parameters with gradients never change", P0, trained_parameters_stay,
        "Look for a step that is applied to a copy, or values that are restored after each step"),
    Law("gradients_lost_or_stale", "Gradients are lost before the step, or kept after it", P0, gradients_lost_or_stale,
        "Zero the gradients once, between a step and the next backward", ("step", "events")),
    Law("replicas_drift", "Replicated parameters differ between ranks", P0, replicas_drift,
        "Synchronize gradients on every rank and let every rank do the same with them"),
    Law("resumed_state_differs", "What a load restored differs from what was saved", P0, resumed_state_differs,
        "Load model and optimizer before the first step, with matching names", ("step", "events")),
    Law("parameters_get_no_gradient", "Trained parameters get no gradient", P1, parameters_get_no_gradient,
        "Remove the detach or no_grad between these modules and the loss, or freeze them", ("step", "modules")),
    Law("frozen_parameters_move", "Frozen parameters change in a step", P1, frozen_parameters_move,
        "Set their .grad to None when freezing, or keep them out of the optimizer"),
    Law("clip_misses_the_step", "A clip does not limit the step", P1, clip_misses_the_step,
        "Clip all parameters of the optimizer, once, between the last backward and the step", ("step", "events")),
    Law("clip_on_scaled_gradients", "A clip meets gradients with a scaler's factor", P1, clip_on_scaled_gradients,
        "Call scaler.unscale_(optimizer) before the clip", ("step", "events")),
    Law("nonfinite_step_is_applied", "NaN or inf reaches the weights", P1, nonfinite_step_is_applied,
        "Skip steps whose gradient norm is not finite, and go back to the last good checkpoint"),
    Law("ranks_share_data", "Ranks train on the same data", P1, ranks_share_data,
        "Give each data-parallel rank its own part of the data", ("step", "modules")),
    Law("tokens_weigh_differently", "Targets of different micro-batches differ in weight", P1, tokens_weigh_differently,
        "Sum the losses and divide by the number of valid targets of the whole step", ("step", "events")),
    Law("logged_norm_is_wrong", "A logged gradient norm is wrong", P1, logged_norm_is_wrong,
        "Compute the norm in float32 over all gradients and ranks, after the last backward and before zero_grad",
        ("step", "events")),
    Law("schedule_does_not_act", "A learning-rate schedule does not act", P2, schedule_does_not_act,
        "Build the scheduler on the optimizer that steps, and step it after that optimizer"),
    Law("eval_mode_in_training", "Modules train in eval mode", P2, eval_mode_in_training,
        "Call model.train() after every evaluation", ("step", "modules")),
    Law("step_waits_for_the_device", "A training step waits for the device", P2, step_waits_for_the_device,
        "Keep values on the device and read them every few hundred steps", ("step", "reads")),
    Law("memory_grows_with_steps", "Memory grows with every step", P3, memory_grows_with_steps,
        "Keep numbers (loss.item()) or detached tensors, and not graphs"),
    Law("low_precision_updates_vanish", "Updates of 16-bit parameters vanish", P3, low_precision_updates_vanish,
        "Keep float32 master weights, or use stochastic rounding"),
)  # fmt: skip


def merged(found: Iterable[Broken]) -> list[Broken]:
    """One violation for all ranks that share it, the worst first; its step is the earliest."""
    kept: dict[tuple[Place, str], Broken] = {}
    for each in found:
        key = (each.place, each.about)
        if key in kept:
            ranks = tuple(sorted({*kept[key].ranks, *each.ranks}))
            kept[key] = replace(kept[key], ranks=ranks, since=min(kept[key].since, each.since))
        else:
            kept[key] = each
    return sorted(kept.values(), key=lambda each: (each.severity.value, each.since))
