"""Load a probe's file as a module, with the `forms` that probes share."""

import importlib.util
import sys
from types import ModuleType

SHARED = "forms"


def load_probe(path: str, forms: str) -> ModuleType:
    """Load the probe at `path`, in which `import forms` means the file `forms`.

    A module `forms` of the target is restored after the probe is loaded.
    """
    before = sys.modules.get(SHARED)
    sys.modules[SHARED] = _load(SHARED, forms)
    try:
        return _load("_auditkit_probe", path)
    finally:
        del sys.modules[SHARED]
        if before is not None:
            sys.modules[SHARED] = before


def _load(name: str, path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
