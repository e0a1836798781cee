"""Checkpoints: whether what a program saves is finite, and whether what it loads reaches its model and optimizer."""

from __future__ import annotations

import os
from hashlib import blake2b
from typing import Any

import torch

from .places import where
from .program import Program, number, stripped
from .readings import quietly, read_all

_DEEPEST = 4
_MOST = 50


class Checkpoints:
    """Saves and loads of one process."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.saves: list = []
        self.loads: list = []
        self.waiting: list = []
        self.restored: list = []

    def saved(self, content: Any, file: Any, step: int) -> None:
        """Record whether the weights in a file are finite."""
        tensors = [tensor for state in _contents(content)["weights"] for tensor in state.values()]
        if tensors:
            with quietly():
                bad = any(reading is not None and not reading.is_finite for reading in read_all(tensors))
            self.saves.append({"path": _path(file), "step": step, "bad": bad})
            del self.saves[:-_MOST]

    def loaded(self, content: Any, file: Any) -> None:
        """Keep the loaded content until the next step shows whether it is used."""
        found = _contents(content)
        if not any(found.values()):
            return
        with quietly():
            self.waiting.append({
                "path": _path(file), "at": list(where()), "holds_optimizer": bool(found["optimizers"]),
                "weights": [_kept({stripped(key): state[key] for key in state}) for state in found["weights"]],
                "optimizers": [_optimizer_readings(state) for state in found["optimizers"]],
                "schedulers": [int(state["last_epoch"]) for state in found["schedulers"]], "random": found["random"],
            })  # fmt: skip
        del self.waiting[:-4]

    def random_state_set(self, state: Any) -> None:
        """Keep the digest of a random state that the program sets after a load, for comparison with the file."""
        if self.waiting and _random_kind(state):
            self.restored = [*self.restored[-32:], _digest_of(state)]

    def compare(self, known: Any) -> None:
        """Compare the loaded state with the current one, before the first step after a load."""
        waiting, self.waiting = self.waiting, []
        for entry in waiting:
            with quietly():
                weights = [self._weights(state) for state in entry["weights"]]
                optimizers = [_optimizer(state, known) for state in entry["optimizers"]]
            entry.update(weights=weights, optimizers=optimizers, step=known.steps)
            mine = [each for each in self.program.schedulers if each.optimizer == known.index]
            entry["fresh_schedulers"] = [each.name for each in mine if not getattr(each.ref(), "last_epoch", -1)]
            restored = {kind for kind, digest in entry["random"] if digest in self.restored}
            entry["random"] = sorted({kind for kind, _ in entry["random"]} - restored)
            self.loads.append(entry)
            del self.loads[:-_MOST]

    def _weights(self, state: dict) -> dict:
        """Count the loaded tensors that equal the current parameters of the same name, and name those that differ."""
        living: dict = {}
        ends: dict = {}
        for each in self.program.parameters:
            tensor = each.ref()
            if tensor is not None and each.name:
                living.setdefault(each.name, []).append(tensor)
                for end in _ends(each.name):
                    ends.setdefault(end, []).append(tensor)
        equal, different, absent, renamed = 0, [], 0, 0
        exact = any(key in living for key in state)
        for key, (shape, kept) in state.items():
            candidates = living.get(key, []) if exact else next((ends[e] for e in _ends(key) if e in ends), [])
            candidates = [each for each in candidates if exact or each.shape == shape]
            if not candidates or kept is None:
                absent += 1
            elif any(now is not None and now.kept() == kept for now in read_all(candidates)):
                equal += 1
            elif exact:
                different.append(key)
            else:
                renamed += 1
        return {
            "equal": equal,
            "different": different[:20],
            "differ": len(different),
            "absent": absent,
            "renamed": renamed if not equal and renamed > max(1, absent) else 0,
        }

    def to_json(self) -> dict:
        return {"saves": self.saves, "loads": self.loads}


def _path(file: Any) -> str:
    name = getattr(file, "name", file)
    return os.path.abspath(os.fsdecode(name)) if isinstance(name, (str, bytes, os.PathLike)) else ""


def _contents(content: Any) -> dict:
    """Return the states of modules, optimizers, schedulers and random numbers in a file, recognized by their form."""
    found: dict = {"weights": [], "optimizers": [], "schedulers": [], "random": []}
    waiting = [(content, 0)]
    while waiting:
        each, depth = waiting.pop()
        kind = _random_kind(each)
        if kind:
            found["random"].append((kind, _digest_of(each)))
        elif isinstance(each, torch.nn.Module):
            found["weights"].append(dict(each.state_dict()))
        elif isinstance(each, dict):
            tensors = {key: value for key, value in each.items() if isinstance(value, torch.Tensor)}
            if "state" in each and "param_groups" in each:
                found["optimizers"].append(each)
            elif "last_epoch" in each and "_step_count" in each:
                found["schedulers"].append(each)
            elif 2 * len(tensors) > len(each) and all(isinstance(key, str) for key in tensors):
                found["weights"].append(tensors)
            elif depth < _DEEPEST:
                waiting.extend((value, depth + 1) for value in each.values())
        elif isinstance(each, (list, tuple)) and depth < _DEEPEST:
            waiting.extend((value, depth + 1) for value in each[:20])
    return found


def _ends(name: str) -> list:
    """Return `a.b.c`, `b.c` and `c`."""
    parts = name.split(".")
    return [".".join(parts[start:]) for start in range(len(parts))]


def _random_kind(value: Any) -> str:
    """Return whose random state this is, by its form; "" for anything else."""
    if isinstance(value, torch.Tensor):
        if value.dtype != torch.uint8 or value.dim() != 1:
            return ""
        if value.numel() == 16 and torch.cuda.is_initialized():
            return "CUDA"
        return "torch" if value.numel() == torch.get_rng_state().numel() else ""
    if isinstance(value, tuple) and len(value) == 3 and isinstance(value[1], tuple) and len(value[1]) == 625:
        return "Python"
    is_numpys = isinstance(value, tuple) and len(value) == 5 and isinstance(value[0], str) and value[0] == "MT19937"
    return "NumPy" if is_numpys else ""


def _digest_of(state: Any) -> str:
    numbers = state.tolist() if isinstance(state, torch.Tensor) else [int(each) for each in state[1]]
    return blake2b(repr(numbers).encode(), digest_size=8).hexdigest()


def _kept(tensors: dict) -> dict:
    """Return the shape of each tensor, and what is kept of its reading."""
    readings = zip(tensors.items(), read_all(list(tensors.values())))
    return {key: (tensor.shape, now and now.kept()) for (key, tensor), now in readings}


def _optimizer_readings(state: dict) -> dict:
    """Return readings of an optimizer's saved tensors, by parameter and name; and whether a schedule is on its way."""
    tensors = {
        (index, name): value
        for index, entry in state["state"].items()
        if isinstance(entry, dict)
        for name, value in entry.items()
        if isinstance(value, torch.Tensor) and value.numel() > 1
    }
    groups = state["param_groups"]
    is_scheduled = any(number(each["initial_lr"]) != number(each["lr"]) for each in groups if "initial_lr" in each)
    sizes = [len(each.get("params", ())) for each in groups]
    return {"readings": _kept(tensors), "sizes": sizes, "is_scheduled": is_scheduled}


def _optimizer(state: dict, known: Any) -> dict:
    """Return how much of a saved optimizer's state the current optimizer has."""
    optimizer = known.ref()
    groups = optimizer.param_groups if optimizer is not None else []
    if [len(group["params"]) for group in groups] != state["sizes"]:
        return {"matches": False}
    tensors = [tensor for group in groups for tensor in group["params"]]
    equal = different = 0
    for (index, name), (_, kept) in state["readings"].items():
        if isinstance(index, int) and index < len(tensors) and kept is not None:
            now = optimizer.state.get(tensors[index], {}).get(name)
            found = read_all([now])[0] if isinstance(now, torch.Tensor) else None
            is_equal = found is not None and found.kept() == kept
            equal, different = equal + is_equal, different + (not is_equal)
    return {"matches": True, "equal": equal, "different": different, "is_scheduled": state["is_scheduled"]}
