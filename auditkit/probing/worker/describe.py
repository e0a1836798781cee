"""What an interpreter is before anything is run in it, as JSON on standard output: its version, torch's, what it has.

Run as `python -I -B describe.py`; takes 30 ms, as it imports nothing.
"""

import importlib.util
import json
import os
import platform
import sys


def main() -> None:
    folders = [path for path in sys.path if os.path.isdir(path)]
    marks = (".dist-info", ".egg-info", ".egg-link", ".pth", ".py")
    installed = {path: sorted(name for name in os.listdir(path) if name.endswith(marks)) for path in folders[1:]}
    spec = importlib.util.find_spec("torch")
    version = os.path.join(os.path.dirname(spec.origin), "version.py") if spec is not None and spec.origin else ""
    text = ""
    if os.path.exists(version):
        with open(version) as file:
            text = file.read()
    told = {"version": sys.version, "installed": installed, "torch": text, "platform": platform.platform()}
    print(json.dumps({**told, "python": platform.python_version(), "executable": sys.executable}))


if __name__ == "__main__":
    main()
