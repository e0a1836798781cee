"""The worker's first line: run by the target's own interpreter as `python -I -B -u entry.py RESULTS_FD`.

It finds its own folder, loads it as a private package (so that no name of ours can shadow a module of
the target), reads one JSON request from standard input and answers in JSON lines on RESULTS_FD. As
`entry.py --forks CHANNEL_FD` it imports torch once and forks such workers; as `entry.py --caged SPEC HOLDER_FD
GROUP_FD COMMAND...`, run by the host's interpreter, it goes into the cage and becomes the command there.
"""

import importlib.util
import json
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
    if sys.argv[1] == "--caged":
        cage = importlib.import_module(PACKAGE + ".process.cage")
        cage.launch(json.loads(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:])
    elif sys.argv[1] == "--forks":
        importlib.import_module(PACKAGE + ".process.installed").find()
        importlib.import_module(PACKAGE + ".fork_server").serve_forks(int(sys.argv[2]))
    else:
        importlib.import_module(PACKAGE + ".server").serve(int(sys.argv[1]))


if __name__ == "__main__":
    main()
