"""The worker's first line: run by the target's own interpreter as `python -I -B -u entry.py RESULTS_FD`.

It finds its own folder, loads it as a private package (so that no name of ours can shadow a module of
the target), reads one JSON request from standard input and answers in JSON lines on RESULTS_FD. As
`entry.py --forks CHANNEL_FD` it imports torch once and forks such workers.
"""

import importlib.util
import os
import sys

PACKAGE = "_auditkit_worker"


def _load_own_package() -> None:
    folder = os.path.dirname(os.path.abspath(__file__))
    spec = importlib.util.spec_from_file_location(
        PACKAGE, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = module
    spec.loader.exec_module(module)


def main() -> None:
    _load_own_package()
    if sys.argv[1] == "--forks":
        importlib.import_module(PACKAGE + ".fork_server").serve_forks(int(sys.argv[2]))
    else:
        importlib.import_module(PACKAGE + ".server").serve(int(sys.argv[1]))


if __name__ == "__main__":
    main()
