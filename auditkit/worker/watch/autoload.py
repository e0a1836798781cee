"""Load the watcher into a process that has torch: called by the carrier and by torch's `torch.backends` entry point."""

import os
import sys
from contextlib import suppress

VARIABLE = "AUDITKIT_WATCH"
_PACKAGE = "_auditkit_watch"


def load() -> None:
    """Start the watcher if `auditkit run` started this process. Never raises; a second call does nothing."""
    folder = os.environ.get(VARIABLE)
    if not folder or _PACKAGE in sys.modules:
        return
    try:
        from importlib import import_module, util

        here = os.path.dirname(os.path.abspath(__file__))
        init = os.path.join(here, "__init__.py")
        spec = util.spec_from_file_location(_PACKAGE, init, submodule_search_locations=[here])
        if spec is None or spec.loader is None:
            return
        package = util.module_from_spec(spec)
        sys.modules[_PACKAGE] = package
        spec.loader.exec_module(package)
        import_module(_PACKAGE + ".process").start(folder)
    except Exception as error:
        with suppress(OSError), open(os.path.join(folder, "failed-%d.txt" % os.getpid()), "w") as file:
            file.write(("%s: %s" % (type(error).__name__, error))[:1000])
