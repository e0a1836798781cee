"""The code that a probe recommends as the body of a function: only where nothing that the function heeds is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditkit.model.enums import Takes
from auditkit.probing.patching.rewrites.function_text import FunctionText
from auditkit.probing.patching.rewrites.remedy import as_recommended
from auditkit.probing.patching.rewrites.rewrite import rewritten
from tests.probing.patching.rewrites.places import place_of

CODE = "import torch\n\n\ndef total_norm(parameters):\n    if not parameters:\n        return 0.0\n    return 1.0\n"
SOURCE = 'import torch\n\n\n@torch.no_grad()\ndef measure(model):\n\t"""The norm."""\n\tnorm = 2.0\n\treturn norm\n'


def body_after(folder: Path, source: str, takes: Takes = Takes.MODULE, code: str = CODE) -> str:
    """The file's text with the recommended body; "" where there is none for it."""
    place = place_of(folder, source)
    rewrite = as_recommended(FunctionText(place.function, place.text.split("\n")), takes, code, {"x"})
    return rewritten(place, [rewrite]).text.rpartition("#")[0] if rewrite is not None else ""


def test_the_body_alone_is_another(tmp_path: Path) -> None:
    """Signature, decorator, docstring and tabs stay; the model is turned into what the example takes."""
    expected = "\tparameters = model.parameters()\n\tif not parameters:\n\t\treturn 0.0\n\treturn 1.0\n"
    assert body_after(tmp_path, SOURCE) == SOURCE.replace("\tnorm = 2.0\n\treturn norm\n", expected)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("measure(model)", "measure(model, norm_type=2.0)"),
        ("measure(model)", "measure(*model)"),
        ("import torch", "import torch as th"),
        ("norm = 2.0", "global model"),
        ("norm = 2.0", "print(model)"),
        ("norm = 2.0", "raise ValueError"),
        ("norm = 2.0", "norm = SEEN[0] = 2.0"),
        ("norm = 2.0", "norm = len(model)\n\tseen.append(norm)"),
    ],
)
def test_what_would_lose_an_option_a_name_or_an_effect_stays(tmp_path: Path, old: str, new: str) -> None:
    assert body_after(tmp_path, SOURCE.replace(old, new).replace("@torch", "@th" if "as th" in new else "@torch")) == ""


def test_an_example_that_takes_something_else_or_needs_more_is_none(tmp_path: Path) -> None:
    assert body_after(tmp_path, SOURCE, Takes.GRADIENTS) == ""
    assert body_after(tmp_path, SOURCE, code=CODE.replace("import torch", "import auditkit")) == ""
    assert body_after(tmp_path, SOURCE, code="x = 1\n" + CODE) == ""
