"""A run of the spectral analysis over all ranks: from each rank's replica gradients to one CSV file a step."""

import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch.distributed as dist
from torch import Tensor
from torch.distributed import distributed_c10d

from .agreement import agreement, summary
from .alignment import available_assignment
from .collected import ReplicaGradients
from .echoes import LEAST_REPLICAS, SpectralEchoes, spectral_echoes
from .gather import CHUNK_BYTES, Link, gather_stacks, transport_device
from .manifest import Manifest, read_manifest, setting_differences, stack_differences
from .peers import Peers, RankLostError
from .shards import ShardPlan, Stack, plan_shards
from .stream import ArrayDtype, Spectrum, count_rows, merge_spectra, write_spectra
from .svd import AlignedSvds, aligned_svds

LOST_AFTER_S = 30.0
"""A process that computes lets its heartbeat through; this leaves room for a busy machine."""
STUCK_AFTER_S = 600.0
"""The longest that a rank may take for one parameter's SVDs, or from one step's measurement to the next one's."""

Measure = Callable[[Tensor], tuple[AlignedSvds, SpectralEchoes]]
_run_numbers = itertools.count()


def measure_stack(grads_RNM: Tensor) -> tuple[AlignedSvds, SpectralEchoes]:
    """Return the aligned SVDs of one parameter's replicas, on the CPU, and their echoes."""
    aligned = aligned_svds(grads_RNM, results_on_cpu=True)
    return aligned, spectral_echoes(aligned)


class SpectralRun:
    """Measures spectra of gradients over all ranks of the default process group: one file a step, in `folder`.

        with SpectralRun(folder, settings={"model": "small", "seed": 0}) as run:
            ...
            replicas.add(matrix_gradients(model))      # after each microbatch's backward, on every rank
            ...
            run.measure(step, replicas)                # on every rank

    `settings` are what decides the spectra besides the parameters, as JSON holds it. A folder with files of other
    settings or parameters is refused; steps, and ranks' files of a step, that are complete are not measured
    again. `directions` keeps that many of the largest; `array_dtype` is that of the numbers in the files.

    Where one rank finds bad input all raise the same ValueError. Where one dies, fails or is stuck the others
    raise RankLostError, `lost_after_s` or `stuck_after_s` later at most. A rank that leaves by an exception tells
    the others. RuntimeError without a process group.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        settings: Mapping[str, Any] | None = None,
        array_dtype: ArrayDtype = "float16",
        directions: int | None = None,
        compress: bool = False,
        measure: Measure = measure_stack,
        chunk_bytes: int = CHUNK_BYTES,
        lost_after_s: float = LOST_AFTER_S,
        stuck_after_s: float = STUCK_AFTER_S,
    ) -> None:
        if array_dtype not in ("float16", "float32"):
            raise ValueError(f"array_dtype is {array_dtype!r}: expected 'float16' or 'float32'")
        for name, value in {"directions": directions, "chunk_bytes": chunk_bytes}.items():
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}: expected at least 1")
        self.folder = Path(folder)
        self._array_dtype = array_dtype
        self._directions = directions
        own = {
            "array_dtype": array_dtype,
            "assignment": available_assignment(),
            "compress": compress,
            "directions": directions,
        }
        taken = sorted(own.keys() & (settings or {}).keys())
        if taken:
            raise ValueError(f"the setting {taken[0]!r} is the run's own: choose another name")
        self._settings = {**own, **(settings or {})}
        json.dumps(self._settings)  # raises TypeError here and not in the middle of a run
        self._suffix = ".csv.gz" if compress else ".csv"
        self._measure_stack = measure
        self._chunk_bytes = chunk_bytes
        self._lost_after_s = lost_after_s
        self._stuck_after_s = stuck_after_s

    def __enter__(self) -> Self:
        if not dist.is_available() or not dist.is_initialized():
            raise RuntimeError(
                "no process group: start the script with torchrun, and call "
                "torch.distributed.init_process_group(timeout=...) before the run"
            )
        # Runs of one process have keys of their own, numbered alike on every rank; torchrun may keep the store when it
        # starts the ranks again.
        prefix = f"auditkit/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/{next(_run_numbers)}"
        store = distributed_c10d.PrefixStore(prefix, distributed_c10d._get_default_store())
        rank, size = dist.get_rank(), dist.get_world_size()
        self._peers = Peers(store, rank, size, lost_after_s=self._lost_after_s, stuck_after_s=self._stuck_after_s)
        try:
            self._join()
        except BaseException as error:
            self._leave(error)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(error)

    def path(self, step: int) -> Path:
        """Return where the spectra of all parameters at `step` are, once it is complete."""
        return self.folder / f"step-{step:06d}{self._suffix}"

    def rank_path(self, step: int, rank: int) -> Path:
        """Return where the spectra of the parameters that `rank` owns are."""
        return self.folder / f"step-{step:06d}.rank-{rank}-of-{self._peers.size}{self._suffix}"

    def is_complete(self, step: int) -> bool:
        """Return whether the file of `step` is there, whole and of this run's settings: the same on every rank.

        Where it is, `measure` would not measure again, and gradients need not be collected. ValueError where there
        is a file of that name that is not whole.
        """
        with agreement(self._peers, f"look for the file of step {step}") as said:
            if self._peers.rank == 0:
                said.value = self._has_whole_file(step, read_manifest(self.folder))
        return bool(said.values[0])

    def measure(self, step: int, replicas: ReplicaGradients) -> Path:
        """Measure the gradients of all ranks at `step` and return the file that has the spectra of all parameters.

        Every rank holds at least one replica of every parameter; of three or more over all ranks the echoes are
        estimated, in the order of ranks. `replicas` is empty afterwards. Raises ValueError on all ranks for NaN,
        infinities, too few replicas, parameters that differ over ranks, and a folder of other settings or
        parameters; RankLostError; OSError where a file cannot be written.
        """
        stacks, counts = self._agree_on_stacks(step, replicas)
        manifest = Manifest(self._settings, stacks)
        plan = plan_shards({name: stack.svd_work for name, stack in stacks.items()}, self._peers.size)
        done_ranks = self._agree_on_files(step, manifest, plan)
        if done_ranks is not None:
            owners = {key: rank for key, rank in plan.owners().items() if rank not in done_ranks}
            mine = gather_stacks(replicas, owners, counts, self._link)
            if mine:
                part = self.rank_path(step, self._peers.rank)
                write_spectra(part, manifest.fingerprint(), len(mine), self._spectra(step, mine), self._array_dtype)
            self._aggregate(step, manifest, plan)
        replicas.clear()
        return self.path(step)

    def _join(self) -> None:
        """Agree with all ranks on the settings, and make a process group whose waits end in bounded time."""
        with agreement(self._peers, "start") as said:
            said.value = self._settings
            if self._peers.rank == 0:
                self.folder.mkdir(parents=True, exist_ok=True)
                before = read_manifest(self.folder)
                if before:
                    self._refuse(setting_differences(before, self._settings))
        for rank, settings in enumerate(said.values):
            for difference in setting_differences(Manifest(said.values[0], {}), settings):
                raise ValueError(f"rank {rank} has other settings than rank 0: {difference}")
        backend = "nccl" if "nccl" in str(dist.get_backend_config()) else "gloo"
        group = dist.new_group(backend=backend, timeout=timedelta(seconds=self._stuck_after_s))
        self._link = Link(group, self._peers, transport_device(group), self._chunk_bytes)

    def _leave(self, error: BaseException | None) -> None:
        """Tell the other ranks, where this one goes by an error; name the rank that failed first, if another did."""
        if error is None:
            self._peers.part()
            dist.destroy_process_group(self._link.group)
            return
        first = self._peers.fail(error)
        self._peers.close()
        # What breaks a collective of the script's own is most often that another rank left.
        if first and isinstance(error, RuntimeError) and not isinstance(error, RankLostError):
            raise RankLostError(f"rank {self._peers.rank} stops: {first}") from error

    def _agree_on_stacks(
        self, step: int, replicas: ReplicaGradients
    ) -> tuple[dict[str, Stack], dict[str, tuple[int, ...]]]:
        """Return the stack of each parameter over all ranks, and how many replicas of it each rank holds."""
        with agreement(self._peers, f"compare the gradients of step {step}") as said:
            said.value = {name: (*replicas.shape(name), replicas.dtype(name)) for name in replicas.names()}
            said.problems.extend(replicas.problems())
        local = [{name: Stack(*stack) for name, stack in value.items()} for value in said.values]
        problems = list(_differences(local)) or list(_too_few(local))
        if problems:
            raise ValueError(summary(problems))
        counts = {name: tuple(stacks[name].replicas for stacks in local) for name in local[0]}
        stacks = {name: Stack(sum(counts[name]), *astuple(stack)[1:]) for name, stack in local[0].items()}
        return stacks, counts

    def _agree_on_files(self, step: int, manifest: Manifest, plan: ShardPlan) -> set[int] | None:
        """Return the ranks whose files of `step` are complete, None where the file of all parameters is."""
        rank = self._peers.rank
        with agreement(self._peers, f"look for files of step {step}") as said:
            if rank == 0:
                before = read_manifest(self.folder)
                if before:
                    self._refuse(stack_differences(before, manifest.stacks))
                said.value = {"all": self._has_whole_file(step, manifest)}
                if before is None:
                    manifest.write(self.folder)
            part, keys = self.rank_path(step, rank), plan.keys_by_rank[rank]
            is_done = not keys or (part.exists() and count_rows(part, manifest.fingerprint()) == len(keys))
            said.value = {"all": False, **(said.value or {}), "part": is_done}
        if said.values[0]["all"]:
            return None
        return {rank for rank, value in enumerate(said.values) if value["part"]}

    def _has_whole_file(self, step: int, manifest: Manifest | None) -> bool:
        path = self.path(step)
        return path.exists() and manifest is not None and count_rows(path, manifest.fingerprint()) > 0

    def _refuse(self, differences: Iterator[str]) -> None:
        found = list(differences)
        if found:
            raise ValueError(f"{self.folder} holds spectra of another run ({summary(found)}): use another folder")

    def _spectra(self, step: int, mine: dict[str, Tensor]) -> Iterator[Spectrum]:
        """Yield the spectrum of each stack in order of the names, and forget the stack."""
        for key in sorted(mine):
            grads_RNM = mine.pop(key)
            aligned, echoes = self._measure_stack(grads_RNM)
            self._peers.advance()
            self._peers.check(f"measure {key!r} of step {step}")
            kept = slice(self._directions)
            yield Spectrum(
                step=step,
                parameter=key,
                replicas=grads_RNM.shape[0],
                matrix_rows=grads_RNM.shape[1],
                matrix_columns=grads_RNM.shape[2],
                dtype=str(grads_RNM.dtype).removeprefix("torch."),
                assignment=aligned.assignment,
                svals_RD=aligned.svals_RD[:, kept].numpy(),
                echo_D=echoes.echo_D[kept].numpy(),
                standard_error_D=echoes.standard_error_D[kept].numpy(),
            )

    def _aggregate(self, step: int, manifest: Manifest, plan: ShardPlan) -> None:
        """Merge the files of all ranks into one, on rank 0, once all of them are whole."""
        self._peers.barrier(f"finish the files of step {step}")
        if self._peers.rank == 0:
            parts = [self.rank_path(step, rank) for rank, keys in enumerate(plan.keys_by_rank) if keys]
            unseen = [str(part) for part in parts if not part.exists()]
            if unseen:
                raise ValueError(f"rank 0 does not see {unseen[0]}: all ranks must write to one shared folder")
            merge_spectra(self.path(step), manifest.fingerprint(), parts)
        self._peers.barrier(f"merge the files of step {step}")


def _differences(local: list[dict[str, Stack]]) -> Iterator[str]:
    """Yield where the parameters of a rank are not those of rank 0."""
    if not any(local):
        yield "no rank holds any gradients"
    for rank, stacks in enumerate(local[1:], 1):
        for name in sorted(stacks.keys() ^ local[0].keys()):
            has, lacks = (rank, 0) if name in stacks else (0, rank)
            yield f"rank {has} holds gradients of {name!r}, rank {lacks} does not"
        for name in sorted(stacks.keys() & local[0].keys()):
            here, there = (f"{one.rows} x {one.columns} {one.dtype}" for one in (local[0][name], stacks[name]))
            if here != there:
                yield f"{name!r} is {here} on rank 0 and {there} on rank {rank}"


def _too_few(local: list[dict[str, Stack]]) -> Iterator[str]:
    for name in sorted(local[0]):
        count = sum(stacks[name].replicas for stacks in local)
        if count < LEAST_REPLICAS:
            yield f"{name!r} has {count} replicas over all ranks: an echo needs at least {LEAST_REPLICAS}"
