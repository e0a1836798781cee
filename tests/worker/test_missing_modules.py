"""What importing a module will miss, and where a function is defined that was looked for elsewhere: read, never run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from auditkit.worker.serve.loading import LoadError, load, use_import_roots
from auditkit.worker.serve.missing_modules import distributions, missing_modules
from tests.source_helpers import write

RAISES = "raise RuntimeError('this file was run')\n"


def test_all_that_is_missing_is_named_at_once(tmp_path: Path) -> None:
    """By way of the checkout's own modules, packages and relative imports too; nothing of it is run."""
    files = {
        "pkg/__init__.py": f"import aa_missing\n{RAISES}",
        "pkg/norms.py": f"import json, bb_missing.part\nfrom . import helper\nfrom pkg.deep import value\n{RAISES}",
        "pkg/helper.py": f"with open('x') as file:\n    import cc_missing\n{RAISES}",
        "pkg/deep/__init__.py": f"class A:\n    from dd_missing import x\n{RAISES}",
        "pkg/unrelated.py": "import zz_missing\n",
    }
    write(tmp_path, files)
    names = ["aa_missing", "bb_missing", "cc_missing", "dd_missing"]
    assert missing_modules("pkg.norms", [str(tmp_path)]) == names


def test_what_the_code_may_do_without_is_not_asked_for(tmp_path: Path) -> None:
    body = (
        "from typing import TYPE_CHECKING\n"
        "try:\n    import aa_missing\nexcept ImportError:\n    aa_missing = None\n"
        "try:\n    import bb_missing\nexcept:\n    import json as bb_missing\n"
        "if TYPE_CHECKING:\n    import cc_missing\n"
        "def late():\n    import dd_missing\n"
        "try:\n    import ee_missing\nexcept ValueError:\n    pass\n"
    )
    write(tmp_path, {"norms.py": body, "broken.py": "def (\n"})
    assert missing_modules("norms", [str(tmp_path)]) == ["ee_missing"]
    assert missing_modules("broken", [str(tmp_path)]) == []


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
    ("call", "hint"),
    [
        ("norms:grad_norm", "did you mean pkg.norms:grad_norm?"),
        ("pkg.nroms:Norms.measure", "did you mean pkg.norms:Norms.measure?"),
        ("pkg.nroms:Norms.weigh", "name the folder to import from: import_roots in auditkit.yaml"),
        ("pkg.nroms:nothing", "name the folder to import from: import_roots in auditkit.yaml"),
    ],
)
def test_the_module_that_defines_the_function_is_named(call: str, hint: str, tmp_path: Path) -> None:
    """A function in a class or another function of that name does not count, nor what is installed."""
    methods = "    def measure(self): ...\n    def nothing(self): ...\n"
    norms = f"async def grad_norm(parameters): ...\nclass Norms:\n{methods}{RAISES}"
    write(tmp_path, {"pkg/norms.py": norms, "venv/lib/other.py": norms, "pkg/a-script.py": norms})
    with pytest.raises(LoadError) as refused:
        load(call, [str(tmp_path)])
    assert refused.value.hint == hint


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
