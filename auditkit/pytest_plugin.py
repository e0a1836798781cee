"""The pytest plugin: the fixture and the marker `auditkit`, and `--auditkit=off`; the first guard imports torch."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from auditkit.testing import Check, no_allocation, no_sync

_MARK = (
    "auditkit(probes=[...], fail_on='P4', **how): the test returns a collector, of which none of these probes may "
    "reproduce a finding as bad as that; other words are those of auditkit.testing.check"
)
_WORDS = ("contract", "takes", "arguments", "returns", "finish", "device")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("auditkit").addoption(
        "--auditkit", choices=("on", "off"), default="on", help="off: tests with guards of auditkit are skipped."
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARK)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--auditkit") == "off":
        for item in items:
            if item.get_closest_marker("auditkit") or "auditkit" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.skip(reason="--auditkit=off"))


class Guards:
    """`auditkit.testing`, with lines looked for below pytest's root folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def check(self, target: Any, **how: Any) -> Check:
        """`auditkit.testing.check`."""
        __tracebackhide__ = True
        from auditkit.testing import check

        return check(target, root=self._root, **how)

    def no_sync(self, at_most: int = 0) -> no_sync:
        """`auditkit.testing.no_sync`."""
        __tracebackhide__ = True
        from auditkit.testing import no_sync

        return no_sync(at_most, root=self._root)

    def no_allocation(self) -> no_allocation:
        """`auditkit.testing.no_allocation`."""
        __tracebackhide__ = True
        from auditkit.testing import no_allocation

        return no_allocation(root=self._root)


@pytest.fixture
def auditkit(request: pytest.FixtureRequest) -> Guards:
    """Guards for collectors and blocks: `check`, `no_sync`, `no_allocation`."""
    return Guards(request.config.rootpath)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Fail a test that made a guard and checks nothing with it."""
    before = set(_unused())
    passed = False
    try:
        result = yield
        passed = True
    finally:
        made = [_unused().pop(number) for number in set(_unused()) - before]
    if passed and made:
        pytest.fail(f"a guard checks nothing: {made[0]}", pytrace=False)
    return result


def _unused() -> dict[Any, str]:
    """The guards that were made and not used; a test that imports none has none."""
    failures = sys.modules.get("auditkit.testing.failures")
    return failures.Unused.made if failures is not None else {}


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Check what a marked test returns."""
    mark = pyfuncitem.get_closest_marker("auditkit")
    if mark is None:
        return None
    how = dict(mark.kwargs)
    probes, fail_on = how.pop("probes", mark.args), how.pop("fail_on", "P4")
    probes = [probes] if isinstance(probes, str) else probes
    names = pyfuncitem._fixtureinfo.argnames
    target = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    if target is None:
        pytest.fail("a test marked with auditkit returns the collector to check", pytrace=False)
    from auditkit.errors import AuditkitError
    from auditkit.testing import GuardFailed, GuardUnavailable

    unknown = [word for word in how if word not in _WORDS]
    if unknown:
        pytest.fail(f"the marker auditkit knows no {unknown[0]!r}: probes, fail_on, {', '.join(_WORDS)}", pytrace=False)
    failed = ""
    try:
        Guards(pyfuncitem.config.rootpath).check(target, **how).passes(*probes, fail_on=fail_on)
    except GuardFailed as error:
        failed = str(error)
    except AuditkitError as error:
        failed = f"{error.message}\nhint: {error.hint}" if error.hint else error.message
    except GuardUnavailable as why:
        raise pytest.skip.Exception(str(why), _use_item_location=True) from None
    if failed:  # no line of the test is to blame
        pytest.fail(failed, pytrace=False)
    return True
