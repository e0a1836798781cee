"""The ranks of a run as each of them sees the others: here, on their way, or gone and why.

Everything goes through the key-value store of the process group and no collective waits here, so a rank that is
dead, stuck or has failed is noticed in bounded time and named.
"""

import contextlib
import json
import queue
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store, Work

LONGEST_PAUSE_S = 0.05
"""Between two looks at what is waited for; the first ones follow each other faster."""
BEATS_PER_LOSS = 10
"""How many heartbeats in a row a rank misses before it counts as dead."""
_LEFT = "left"

Answer = TypeVar("Answer")


class RankLostError(RuntimeError):
    """Another rank died, failed, is stuck, or is somewhere else in the program: `reason` says which and why."""

    def __init__(self, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason or message


@dataclass(slots=True)
class _Seen:
    """The last heartbeat and progress of another rank, and when they last changed here."""

    beat: str = ""
    progress: str = ""
    beat_s: float = field(default_factory=time.monotonic)
    progress_s: float = field(default_factory=time.monotonic)

    def note(self, sign: str) -> None:
        beat, _, progress = sign.partition("/")
        if beat != self.beat:
            self.beat, self.beat_s = beat, time.monotonic()
        if progress != self.progress:
            self.progress, self.progress_s = progress, time.monotonic()


class Peers:
    """Exchanges small values among all ranks of a run and watches over them while anything is waited for.

    A rank whose heart has stopped for `lost_after_s` is dead; one whose heart beats but that gets nowhere for
    `stuck_after_s`, or that has not begun until then, is stuck. Every wait ends then, with a RankLostError that
    names it. `store` is shared by all ranks and its keys are used by this run alone.
    """

    def __init__(self, store: "Store", rank: int, size: int, *, lost_after_s: float, stuck_after_s: float) -> None:
        self.rank = rank
        self.size = size
        self._store = store
        self._lost_after_s = lost_after_s
        self._stuck_after_s = stuck_after_s
        self._round = 0
        self._progress = 0
        self._seen = {other: _Seen() for other in range(size) if other != rank}
        self._closed = threading.Event()
        self._heart = threading.Thread(target=self._beat, name="auditkit-heartbeat", daemon=True)
        self._heart.start()

    def advance(self) -> None:
        """Note that this rank got somewhere: the others see it with the next heartbeat."""
        self._progress += 1

    def exchange(self, what: str, value: Any) -> list[Any]:
        """Return the values of all ranks, in order of rank, once each of them has called this for `what`.

        `value` is anything that JSON holds. Raises RankLostError.
        """
        self._round += 1
        self.advance()
        keys = [f"{self._round}/{rank}" for rank in range(self.size)]
        self._ask(lambda store: store.set(keys[self.rank], json.dumps([what, value])))
        self.wait_for(what, lambda: self._ask(lambda store: store.check(keys)))
        said = self._ask(lambda store: [json.loads(store.get(key)) for key in keys])
        elsewhere = [f"rank {rank} is at {name!r}" for rank, (name, _) in enumerate(said) if name != what]
        if elsewhere:
            raise RankLostError(f"rank {self.rank} is at {what!r}, {', '.join(elsewhere)}")
        # All ranks are here, so all of them have read the round before.
        with contextlib.suppress(RankLostError):  # a store that cannot delete keeps a few bytes more
            self._ask(lambda store: store.delete_key(f"{self._round - 1}/{self.rank}"))
        return [value for _, value in said]

    def barrier(self, what: str) -> None:
        """Return once all ranks have called this for `what`. Raises RankLostError."""
        self.exchange(what, None)

    def finish(self, work: "Work", what: str) -> None:
        """Return once `work` of a collective is done. Raises RankLostError, also where a connection broke."""
        self.wait_for(what, work.is_completed)
        try:
            work.wait()
        except RuntimeError as error:
            self.explain(error, what)
        self.advance()

    def wait_for(self, what: str, is_done: Callable[[], bool]) -> None:
        """Return once `is_done`. Raises RankLostError where another rank keeps it from being done."""
        started_s = looked_s = time.monotonic()
        pause_s = 0.0005
        while not is_done():
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            if time.monotonic() - looked_s > self._lost_after_s / BEATS_PER_LOSS:
                self._look(what, self._missing(), started_s)
                looked_s = time.monotonic()

    def check(self, what: str) -> None:
        """Raise RankLostError where another rank has failed or is dead, without waiting for any."""
        self._look(what, self._seen, time.monotonic())

    def explain(self, error: RuntimeError, what: str) -> NoReturn:
        """Raise RankLostError for `error` of a collective, naming the rank behind it if one can be told.

        The connection to a dead rank breaks at once and its heartbeat is missed later: this waits for that.
        """
        started_s = time.monotonic()
        while time.monotonic() - started_s < 1.5 * self._lost_after_s:
            try:
                self._look(what, self._seen, started_s)
            except RankLostError as lost:
                raise lost from error
            time.sleep(LONGEST_PAUSE_S)
        raise RankLostError(f"rank {self.rank} lost the connection to another rank at {what!r}: {error}") from error

    def fail(self, error: BaseException) -> str | None:
        """Tell the other ranks that this one stops, and why; return why another one did, if it was the first."""
        message = error.reason if isinstance(error, RankLostError) else f"{type(error).__name__}: {error}"
        with contextlib.suppress(RankLostError):
            self._ask(lambda store: store.compare_set("failed", "", json.dumps([self.rank, message])))
            return self._failure()
        return None

    def part(self) -> None:
        """Leave together with all other ranks. Raises RankLostError where one of them does not come here."""
        self.barrier("leave")
        self.close()
        if self.rank == 0:
            # Its process may hold the store, which the others read once more.
            deadline_s = time.monotonic() + self._lost_after_s
            with contextlib.suppress(RankLostError):
                while time.monotonic() < deadline_s and any(self._sign(other) != _LEFT for other in self._seen):
                    time.sleep(LONGEST_PAUSE_S / 10)

    def close(self) -> None:
        """Stop the heartbeat: this rank leaves, and nobody can wait for it any more."""
        self._closed.set()
        self._heart.join(timeout=self._lost_after_s)
        with contextlib.suppress(RankLostError):
            self._ask(lambda store: store.set(f"alive/{self.rank}", _LEFT))

    def _look(self, what: str, expected: Iterable[int], started_s: float) -> None:
        """Raise RankLostError where a rank has said that it failed, or one of `expected` is dead or stuck.

        `started_s` is when this rank began to wait.
        """
        reason = self._failure() or next(filter(None, (self._reason(other, started_s) for other in expected)), None)
        if reason:
            raise RankLostError(f"rank {self.rank} stops at {what!r}: {reason}", reason)

    def _failure(self) -> str | None:
        if not self._ask(lambda store: store.check(["failed"])):
            return None
        rank, message = json.loads(self._ask(lambda store: store.get("failed")))
        return None if rank == self.rank else f"rank {rank} stopped: {message}"

    def _reason(self, other: int, started_s: float) -> str | None:
        """Return why there is no sense in waiting for `other`, or None."""
        sign = self._sign(other)
        if sign == _LEFT:
            return f"rank {other} has left the run"
        seen = self._seen[other]
        seen.note(sign)
        silent_s = time.monotonic() - seen.beat_s
        idle_s = time.monotonic() - max(seen.progress_s, started_s)
        if not seen.beat:
            # Ranks start as their data comes in: that may take longer than a heart may be silent.
            return f"rank {other} has not begun for {silent_s:.1f} s" if silent_s > self._stuck_after_s else None
        if silent_s > self._lost_after_s:
            return f"rank {other} gave no sign of life for {silent_s:.1f} s: it died or was stopped"
        if idle_s > self._stuck_after_s:
            return f"rank {other} is alive, but got nowhere for {idle_s:.1f} s"
        return None

    def _sign(self, other: int) -> str:
        """Return the last sign of life of another rank: "BEAT/PROGRESS", "left", or "" before the first one."""
        key = f"alive/{other}"
        return self._ask(lambda store: store.get(key).decode() if store.check([key]) else "")

    def _missing(self) -> list[int]:
        """The ranks that have not come to the exchange of this round; in a collective after it, all others."""
        arrived = self._ask(lambda store: [store.check([f"{self._round}/{other}"]) for other in self._seen])
        return [other for other, here in zip(self._seen, arrived, strict=True) if not here] or list(self._seen)

    def _ask(self, question: Callable[["Store"], Answer]) -> Answer:
        """Return what the store answers. Raises RankLostError where it is gone or does not answer.

        In a thread of its own: a request to a store whose process was stopped has no time limit.
        """
        answers: queue.SimpleQueue[Answer | RuntimeError] = queue.SimpleQueue()

        def ask() -> None:
            try:
                answers.put(question(self._store))
            except RuntimeError as error:
                answers.put(error)

        threading.Thread(target=ask, daemon=True).start()
        try:
            answer = answers.get(timeout=self._lost_after_s)
        except queue.Empty:
            answer = RuntimeError(f"no answer for {self._lost_after_s:g} s")
        if isinstance(answer, RuntimeError):
            holder = "the process that holds the group's key-value store, rank 0 or torchrun, died or was stopped"
            raise RankLostError(f"rank {self.rank} stops: {holder}: {answer}") from answer
        return answer

    def _beat(self) -> None:
        store = _own_connection(self._store)
        beat = 0
        while not self._closed.is_set():
            beat += 1
            try:
                store.set(f"alive/{self.rank}", f"{beat}/{self._progress}")
            except RuntimeError:
                return  # the store is gone, which whoever waits finds out by itself
            self._closed.wait(self._lost_after_s / BEATS_PER_LOSS)


def _own_connection(store: "Store") -> "Store":
    """A second connection, so that the heart beats while the first one waits; the same store where it has none."""
    clone: Callable[[], Store] | None = getattr(store, "clone", None)
    try:
        return clone() if clone else store
    except RuntimeError:
        return store
