"""Load the watcher once a process has imported torch; run the sitecustomize that this file hides.

`auditkit run` puts this folder first on PYTHONPATH. A process that never imports torch loads nothing.
"""

import os
import sys


def _run_hidden():
    """Run the next `sitecustomize` on the path, as if this folder were not there."""
    from importlib import machinery, util

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
    spec = machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


class _AfterTorch:
    """A finder that lets the ordinary loader import torch and then loads the watcher."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        from importlib import util

        sys.meta_path.remove(self)
        spec = util.find_spec("torch")
        if spec is None or spec.loader is None:
            return spec
        loader, run = spec.loader, spec.loader.exec_module

        def exec_module(module):
            del loader.exec_module
            run(module)
            _load()

        loader.exec_module = exec_module
        return spec


def _load():
    try:
        from importlib import util

        path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "autoload.py")
        spec = util.spec_from_file_location("_auditkit_autoload", path)
        module = util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.load()
    except Exception:  # the program runs as it would without auditkit
        pass


if os.environ.get("AUDITKIT_WATCH"):
    sys.meta_path.insert(0, _AfterTorch())
_run_hidden()
