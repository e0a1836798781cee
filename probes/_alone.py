"""Run a probe file by itself: `python probes/norm_overflows_on_finite_grads.py --checkout DIR --target M:F`."""

import os
import sys


def run_alone(path):
    """Replace this process by `auditkit probe run PATH ...`, from a clone and from an installed wheel."""
    clone = os.path.dirname(os.path.dirname(os.path.abspath(path)))
    if os.path.isfile(os.path.join(clone, "auditkit", "__init__.py")):
        paths = [clone, *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    os.execv(
        sys.executable,
        [sys.executable, "-m", "auditkit", "probe", "run", os.path.abspath(path), *sys.argv[1:]],
    )
