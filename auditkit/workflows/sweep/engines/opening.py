"""Engines by their names; each is imported where it is asked for, because its package need not be there."""

from __future__ import annotations

from auditkit.errors import BadInputError, nearest_names
from auditkit.workflows.sweep.engines.protocol import Engine, EngineSettings

ENGINES = ("local", "ray", "slurm")


def open_engine(name: str, settings: EngineSettings) -> Engine:
    """The engine of that name. Raises BadInputError where there is none, or where it cannot work here."""
    if name == "local":
        from auditkit.workflows.sweep.engines.local import LocalPool

        return LocalPool(settings)
    if name == "ray":
        from auditkit.workflows.sweep.engines.ray_cluster import RayCluster

        return RayCluster(settings)
    if name == "slurm":
        from auditkit.workflows.sweep.engines.slurm import SlurmQueue

        return SlurmQueue(settings)
    nearest = nearest_names(name, ENGINES)
    hint = f"did you mean {nearest[0]}?" if nearest else f"one of {', '.join(ENGINES)}"
    raise BadInputError(f"no engine is called '{name}'", hint)
