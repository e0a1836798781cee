"""Functions of spectra and shard plans are found by name and arguments, and tried with their contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditkit.probing.engine.sandbox import Setting
from auditkit.probing.engine.trials import try_candidates
from auditkit.probing.find.search import discover

pytestmark = pytest.mark.process

SOURCE = """
import torch

def safe_svd(tensor):
    return torch.linalg.svd(tensor, full_matrices=False)

def get_raw_svds(empirical_gradients):
    u, s, vh = safe_svd(empirical_gradients)
    return u, s, vh.mT

def align_svds(raw_svds, mean_svd):
    return tuple(raw_svds)

def get_mean_svd(mean_gradient):
    return safe_svd(mean_gradient)

def spectral_echo(left_bases_U, right_bases_V):
    return left_bases_U.sum()

def plot_echo(axis, panel):
    return axis

def shard_param_keys(all_keys, rank, world_size):
    return all_keys[rank::world_size]

def load_shard(path):
    return path

def shard_embedding(param, rank, world_size):
    return param.chunk(world_size)[rank]

def sharded_dim(embedding_size, rank, world_size):
    return embedding_size // world_size

def _shard_quietly(keys, rank, world_size):
    return keys
"""


def test_a_trial_asks_for_what_the_candidate_promises(tmp_path: Path) -> None:
    """What it cannot be fed, or does not return, is said of each."""
    import sys

    (tmp_path / "analysis.py").write_text(SOURCE)
    trials = try_candidates(discover(tmp_path).candidates, Setting(tmp_path, sys.executable, (tmp_path,)))
    works = {trial.target.call.partition(":")[2]: trial.works for trial in trials}
    assert works == {"get_raw_svds": True, "align_svds": True, "spectral_echo": False, "shard_param_keys": True}
    (failed,) = [trial for trial in trials if not trial.works]
    assert "holds no part that is high for identical replicas" in failed.message
    takes = {trial.target.call.partition(":")[2]: trial.target.takes for trial in trials if trial.works}
    assert takes == {"get_raw_svds": "gradients", "align_svds": "factors", "shard_param_keys": "keys"}
