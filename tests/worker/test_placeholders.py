"""What stands in for an absent module while files are loaded, and that it is never mistaken for the real one."""

from __future__ import annotations

import abc
import builtins
import contextlib
import importlib
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

import pytest

from auditkit.worker.serve import loading, placeholders
from auditkit.worker.serve.placeholders import Placeholder, PlaceholderTouched
from tests.source_helpers import write

Item = TypeVar("Item")


@pytest.fixture
def absent() -> Placeholder:
    return placeholders.stand_in("absent")


def forget_modules(folder: Path) -> None:
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ModuleType]]:
    """`load(files, name)`: a module of a checkout, imported with stand-ins; nothing of that is left afterwards."""
    monkeypatch.setattr(builtins, "__import__", builtins.__import__)
    monkeypatch.setattr(placeholders, "_state", placeholders._State())
    monkeypatch.syspath_prepend(str(tmp_path))

    def load_module(files: dict[str, str], name: str = "norms") -> ModuleType:
        write(tmp_path, files)
        placeholders.install([str(tmp_path)])
        importlib.invalidate_caches()
        with placeholders.loading():
            return loading.import_module(name, [str(tmp_path)])  # type: ignore[no-any-return]

    yield load_module
    forget_modules(tmp_path)


def test_while_modules_are_loaded_it_can_be_all_that_a_module_is_used_for(absent: Any) -> None:
    with placeholders.loading():

        class Meta(type):
            pass

        class Derived(absent.Base, metaclass=Meta):
            pass

        class Both(absent.Base, abc.ABC):
            pass

        class Made(metaclass=absent.Meta):
            x = 1

        class Typed(Generic[Item], absent.Typed[int]):
            pass

        @absent.register("x", y=1)
        @absent.jit
        def function(given: absent.Thing[int], other: absent.a.b | None = absent.default) -> int:
            return 2

        assert function(1) == 2
        assert (Made.x, type(Derived), Derived.__mro__[1].__name__) == (1, Meta, "Base")
        assert issubclass(Derived, absent.Base)
        assert not isinstance(Both(), absent.Other)
        assert typing.Optional[absent.Thing] == typing.Union[absent.Thing, None]  # noqa: UP007, UP045
        assert [*absent.names] == []
        assert "name" not in absent.names
        assert not absent.is_available()
        assert (absent.version > (1, 2), absent.version > (1, 2), absent.version < (1, 2)) == (True, True, False)
        assert tuple(map(int, absent.__version__.split(".")[:2])) > (2, 0)
        assert Typed.__name__ == "Typed"
        with absent.context(), pytest.raises(TypeError, match=r"absent\.EPS is absent: it has no value"):
            float(absent.EPS)


@pytest.mark.parametrize(
    "use",
    [
        lambda absent: absent.x,
        lambda absent: absent(),
        lambda absent: absent == 1,
        lambda absent: absent < 1,
        lambda absent: absent + 1,
        lambda absent: 1 * absent,
        lambda absent: list(absent),
        lambda absent: len(absent),
        lambda absent: bool(absent),
        lambda absent: float(absent),
        lambda absent: str(absent),
        lambda absent: f"{absent}",
        lambda absent: 1 in absent,
        lambda absent: absent[0],
        lambda absent: setattr(absent, "x", 1),
        lambda absent: getattr(absent, "x", None),
    ],
)
def test_afterwards_every_use_is_an_error_that_no_except_exception_hides(use: Callable, absent: Any) -> None:
    placeholders.forget()
    with pytest.raises(PlaceholderTouched, match="absent"), contextlib.suppress(Exception):
        use(absent)
    with pytest.raises(PlaceholderTouched, match="absent"):
        placeholders.raise_if_touched()
    placeholders.forget()


def test_who_asks_whether_a_module_is_there_is_told_that_it_is_not(load: Callable[..., ModuleType]) -> None:
    """Whether or not another file cannot do without it."""
    asks = """
import contextlib, importlib.util
try:
    import gone_missing
    HAS_IT = True
except ImportError:
    HAS_IT = False
try:
    import uses_it
    HAS_USER = True
except Exception:
    HAS_USER = False
with contextlib.suppress(ImportError):
    import gone_missing.part as HAS_PART
def find():
    try:
        import gone_missing
        return True
    except ModuleNotFoundError:
        return False
FOUND = find()
SPEC = importlib.util.find_spec("gone_missing")
"""
    norms = (
        "import gone_missing\nimport gone_missing.deep.er as deep\nfrom gone_missing import a, b as c\nimport asks\n"
    )
    module = load({"asks.py": asks, "uses_it.py": "import gone_missing\n", "norms.py": norms})
    asked = module.asks
    assert (asked.HAS_IT, asked.HAS_USER, asked.FOUND, asked.SPEC) == (False, False, False, None)
    assert not hasattr(asked, "HAS_PART")
    assert [repr(module.deep), repr(module.c)] == [
        "<placeholder of gone_missing.deep.er>",
        "<placeholder of gone_missing.b>",
    ]
    assert placeholders.given() == ("gone_missing",)
    assert "gone_missing" not in sys.modules
