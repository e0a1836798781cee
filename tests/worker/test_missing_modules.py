"""Modules that are missing or hidden, and what to install for them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from auditkit.worker.serve.loading import LoadError, load, use_import_roots
from auditkit.worker.serve.missing_modules import distributions
from tests.source_helpers import write


def test_a_folder_is_found_that_an_installed_package_of_its_name_hides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many an installed package brings `examples` or `tests` along."""
    installed, checkout = tmp_path / "installed", tmp_path / "checkout"
    write(installed, {"hidden_folder/__init__.py": "OTHER = 1\n"})
    write(checkout, {"hidden_folder/training/norms.py": "def norm(grads):\n    return 2.0\n"})
    monkeypatch.setattr(sys, "path", [str(installed), *sys.path])
    use_import_roots([str(checkout)])
    assert load("hidden_folder.training.norms:norm", [str(checkout)])([]) == 2.0


def test_distributions_have_their_own_names() -> None:
    assert distributions(["cv2", "einops", "PIL", "yaml"]) == ["opencv-python", "einops", "Pillow", "PyYAML"]


@pytest.mark.parametrize(
    ("call", "places", "said"),
    [
        ("a_library:watch", ["train.py:9 in main"], f"the library 'a_library' is not installed in {sys.executable}"),
        ("a_module:watch", [], "no module named 'a_module' under /checkout"),
    ],
)
def test_a_library_is_not_looked_for_in_the_checkout(call: str, places: list[str], said: str) -> None:
    """What the checkout calls elsewhere is missing from the interpreter; a target of its own from the checkout."""
    use_import_roots([], [{"call": call, "places": places}])
    with pytest.raises(LoadError) as refused:
        load(call, ["/checkout"])
    assert (refused.value.message, refused.value.is_final) == (said, True)
    assert refused.value.missing == (("a_library",) if places else ())
