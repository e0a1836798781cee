"""The script of an interpreter's server: `python -I -B -u entry.py CHANNEL_FD`.

It loads its own folder as a private package, so that no name of auditkit can shadow a module of the target.
"""

import importlib.util
import os
import sys

PACKAGE = "_auditkit_worker"


def main() -> None:
    folder = os.path.dirname(os.path.abspath(__file__))
    spec = importlib.util.spec_from_file_location(
        PACKAGE, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = module
    spec.loader.exec_module(module)
    importlib.import_module(PACKAGE + ".server").serve(int(sys.argv[1]))


if __name__ == "__main__":
    main()
