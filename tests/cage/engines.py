"""The engines that hold a cage, for tests: each in turn, where it works."""

from __future__ import annotations

import functools

import pytest

from auditkit.model.enums import CageChoice
from auditkit.probing.hosts import cage

NONE = "none"


@functools.cache
def why_not(name: str) -> str:
    """Why an engine does not work here; "" where it does."""
    found = cage._working(name)
    return "" if found.name else "; ".join(found.lacks)


def set_engine(name: str, monkeypatch: pytest.MonkeyPatch) -> CageChoice:
    """What to ask for to have this engine and no other; skips the test where it does not work."""
    if name == NONE:
        return CageChoice.OFF
    if why_not(name):
        pytest.skip(f"{name} does not work here: {why_not(name)}")
    monkeypatch.setenv(cage.FORCED, name)
    return CageChoice.REQUIRE


@pytest.fixture(params=cage.ENGINES)
def engine_name(request: pytest.FixtureRequest) -> str:
    """Each engine that works here, in turn."""
    name: str = request.param
    if why_not(name):
        pytest.skip(f"{name} does not work here: {why_not(name)}")
    return name


@pytest.fixture
def engine(engine_name: str, monkeypatch: pytest.MonkeyPatch) -> CageChoice:
    """What to ask for to have the engine and no other."""
    return set_engine(engine_name, monkeypatch)
