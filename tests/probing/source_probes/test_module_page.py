"""A module under audit as its source shows it: who imports it, for what, and how its calls flow."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditkit.model.module_page import ImporterKind, ModulePage, Share, Way
from auditkit.probing.source_code.index import SourceIndex
from auditkit.probing.source_probes.module_page import module_pages
from tests.source_helpers import write

pytestmark = pytest.mark.process

FILES = {
    "src/pack/__init__.py": "from pack.norms import Collector\n\n__all__ = ['Collector']\n",
    "src/pack/norms.py": '''"""Norms of gradients.

More of it.
"""
import torch


class Collector:
    """Collects."""

    def __init__(self, scale: float = 1.0):
        self.scale = scale

    def collect(self, parameters: list) -> dict:
        """Both steps."""
        return finish_norms(self.collect_async(parameters))

    def collect_async(self, parameters):
        return {"norm": torch.stack([p.grad.norm() for p in parameters])}


@torch.compile
def finish_norms(pending: dict) -> dict:
    """Reads it back."""
    return {"norm": pending["norm"].norm().item()}
''',
    "src/pack/training.py": """from pack.norms import Collector, finish_norms as finish
import pack.norms


def train(model, other: Collector):
    collector = Collector()

    def step():
        return collector.collect_async(model.parameters())

    pending = step()
    torch.cuda.synchronize()
    return finish(pending), pack.norms.finish_norms({})


def main():
    train(None, None)
""",
    "src/pack/cli.py": "from pack.training import train\n\n\ndef run(collect):\n    collect()\n    train()\n",
    "tests/test_norms.py": """import hypothesis
from pack import Collector


def test_one():
    assert Collector().collect([])


def test_two():
    assert Collector
""",
    "src/pack/unrelated.py": "from pack import training\n\n\ndef collect(finish_norms):\n    finish_norms()\n",
}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> ModulePage:
    folder = write(tmp_path_factory.mktemp("checkout"), FILES)
    (found,) = module_pages(SourceIndex(folder), ["pack.norms", "pack.norms", "pack.missing"])
    return found


def test_what_the_module_holds(page: ModulePage) -> None:
    assert (page.file, page.purpose) == ("src/pack/norms.py", "Norms of gradients.")
    assert (page.lines, page.functions, page.classes) == (25, 4, 1)
    assert page.annotated == Share(4, ("Collector.collect_async",))
    assert page.documented == Share(4, ("Collector.collect_async",))
    assert page.compiles == (22,)


def test_who_imports_it(page: ModulePage) -> None:
    kinds = [(importer.file, importer.kind) for importer in page.importers]
    assert kinds == [
        ("src/pack/__init__.py", ImporterKind.PACKAGE),
        ("src/pack/training.py", ImporterKind.CODE),
        ("tests/test_norms.py", ImporterKind.TEST),
    ]


def test_what_is_done_with_each_name(page: ModulePage) -> None:
    package, training, tests = page.importers
    assert [(use.name, use.mentions) for use in package.uses] == [("Collector", ())]
    told = {use.name: [(one.way, one.function, one.line) for one in use.mentions] for use in training.uses}
    assert told == {
        "Collector": [
            (Way.ANNOTATION, "train", 5),
            (Way.CALLED, "train", 6),
            (Way.CALLED, "train.step", 9),
        ],
        "finish_norms": [(Way.CALLED, "train", 13), (Way.CALLED, "train", 13)],
    }
    assert (tests.tests, tests.is_property_based, training.is_property_based) == (2, True, False)
    assert [(one.way, one.line) for one in tests.uses[0].mentions] == [
        (Way.CALLED, 6), (Way.CALLED, 6), (Way.NAMED, 10)
    ]  # fmt: skip


def test_how_calls_flow(page: ModulePage) -> None:
    """The training's flow with the wait between, then the module's own; a function that only has the name has none."""
    flows = {flow.function: flow for flow in page.flows}
    assert list(flows) == ["train", "Collector.collect"]
    assert [(step.kind, step.text, step.line) for step in flows["train"].steps] == [
        ("call", "Collector.collect_async() in step()", 9),
        ("wait", "torch.cuda.synchronize()", 12),
        ("call", "finish_norms()", 13),
        ("call", "finish_norms()", 13),
    ]
    assert flows["train"].callers == ("src/pack/cli.py:run", "src/pack/training.py:main")
    assert [step.text for step in flows["Collector.collect"].steps] == ["Collector.collect_async()", "finish_norms()"]


def test_a_collection_by_hand_is_a_step(tmp_path: Path) -> None:
    files = {
        "norms.py": "def finish_norms(pending: dict) -> float:\n    return float(pending['_norm']) + pending['_n']\n",
        "loop.py": "from norms import finish_norms\n\n\ndef loop(x):\n    p = {'_norm': x, '_n': 2}\n"
        "    x.cpu()\n    total = finish_norms(p)\n    print(total)\n",
    }
    (page,) = module_pages(SourceIndex(write(tmp_path, files)), ["norms"])
    (flow,) = page.flows
    assert [(step.kind, step.text, step.line) for step in flow.steps] == [
        ("by_hand", "collected by hand", 5),
        ("wait", "x.cpu()", 6),
        ("call", "finish_norms()", 7),
    ]
