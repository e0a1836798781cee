"""The closed vocabularies: severity, outcome, evidence, contract. Four separate things, never mixed."""

from __future__ import annotations

from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is, P0 worst."""

    P0 = "P0"
    P1 = "P1"
    P2 = "P2"
    P3 = "P3"
    P4 = "P4"

    def at_least(self, other: Severity) -> bool:
        """Whether this is as bad as `other` or worse."""
        return self.value <= other.value


class Outcome(StrEnum):
    """What a probe can say. An error or an absence is never a pass."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not_reproduced"
    NOT_APPLICABLE = "not_applicable"
    UNAVAILABLE = "unavailable"
    ERROR = "error"

    @property
    def is_result(self) -> bool:
        """Whether the probe could tell."""
        return self in (Outcome.REPRODUCED, Outcome.NOT_REPRODUCED)


class Evidence(StrEnum):
    """How a number was obtained; `read` from the source, without running it."""

    MEASURED = "measured"
    SIMULATED = "simulated"
    EXTRAPOLATED = "extrapolated"
    READ = "read"


class Reason(StrEnum):
    """Why a probe has no result: what happened to its process."""

    EXCEPTION = "exception"
    CRASH = "crash"
    TIMEOUT = "timeout"
    EXIT = "exit"
    IMPORT_ERROR = "import_error"
    NO_TORCH = "no_torch"
    NO_INTERPRETER = "no_interpreter"
    CANNOT_FEED = "cannot_feed"
    CANNOT_READ = "cannot_read"
    PLACEHOLDER = "placeholder"
    SELF_CHECK = "self_check"
    PROTOCOL = "protocol"
    NO_DEVICE = "no_device"
    NO_MEMORY = "no_memory"
    NOT_PARSED = "not_parsed"

    @property
    def is_not_loaded(self) -> bool:
        """Whether the target, or what it needs, could not even be imported."""
        return self in (Reason.IMPORT_ERROR, Reason.NO_TORCH, Reason.NO_INTERPRETER)


class Contract(StrEnum):
    """What a target promises to compute."""

    GRAD_NORM = "grad_norm"
    GRAD_STATS = "grad_stats"
    DUAL_STATS = "dual_stats"
    MONITOR = "monitor"
    ALIGNED_SVD = "aligned_svd"
    SPECTRAL_ECHO = "spectral_echo"
    SHARD_PLAN = "shard_plan"
    TRAIN_STEP = "train_step"


ASKED_FOR = (Contract.ALIGNED_SVD, Contract.SPECTRAL_ECHO, Contract.SHARD_PLAN, Contract.TRAIN_STEP)
"""Contracts that no result shows by itself: auditkit tries a target as one of these only if its contract names it."""


class Takes(StrEnum):
    """How a target is fed."""

    MODULE = "module"
    PARAMETERS = "parameters"
    NAMED_PARAMETERS = "named_parameters"
    GRADIENTS = "gradients"
    OPTIMIZER = "optimizer"
    MODULES = "modules"
    OBJECT = "object"
    FACTORS = "factors"
    KEYS = "keys"


class DeviceChoice(StrEnum):
    """Where probes run: `auto` is a CUDA device where there is one, and otherwise CPU and simulation."""

    AUTO = "auto"
    CUDA = "cuda"
    CPU = "cpu"
    SIMULATED = "simulated"
