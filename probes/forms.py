"""What probes share: running a probe's file as a program, and comparing the target's results for several input forms.

A probe imports it as `forms`, wherever the probe is loaded. It needs neither torch nor anything else of auditkit.
"""

import contextlib
import glob
import importlib.util
import os
import shlex
import shutil
import sys
from textwrap import fill

WIDTH = 79
ANY_PROBE = {
    "--checkout DIR[@REV]": "The code to check; default: this folder.",
    "--tickets DIR": "File what reproduces there; default: file nothing.",
    "--json": "Print one JSON document.",
    "--cage": "Run everything in a sandbox.",
    "-h, --help": "Show this page.",
}
SOURCE_PROBE = {"--target MODULE:FUNCTION": "Only this function's module; default: every file."}
TARGET_PROBE = {
    "--target MODULE:FUNCTION": "The function to check; default: all that are found.",
    "--contract NAME": "What it promises, such as grad_norm.",
    "--takes HOW": "module, parameters, named_parameters or gradients.",
    "--argument NAME=VALUE": "A further argument; VALUE may be JSON.",
    "--python PATH": "The checkout's interpreter; default: its .venv.",
    "--device NAME": "auto, cuda, cpu or simulated.",
}
AFTERWARDS = "the gradients' norm afterwards"


# --- a probe as a program ------------------------------------------------------------------------------


def run_alone(path):
    """Print the probe's help, or replace this process by `auditkit probe run PATH ...`.

    The interpreter is the running one if auditkit is installed in it, else that of the clone's .venv, else that of
    the `auditkit` on PATH. Without any, print what to do and exit with 2.
    """
    path = os.path.abspath(path)
    home = os.path.dirname(os.path.dirname(path))
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(help_page(os.path.basename(path), sys.modules["__main__"]))
        return
    command = _auditkit(home)
    is_clone = os.path.isfile(os.path.join(home, "auditkit", "__init__.py"))
    if is_clone:
        os.environ["PYTHONPATH"] = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])
    if command:
        words = [word for word in sys.argv[1:] if word != "--cage"]
        cage = ["--cage"] if "--cage" in sys.argv else []
        with contextlib.suppress(OSError):  # an interpreter of another machine, or one that is gone
            os.execv(command[0], [*command, *cage, "probe", "run", path, *words])
    install = "cd {} && python3 -m venv .venv && .venv/bin/pip install .".format(shlex.quote(home))
    advice = "install it: " + install if is_clone else "run this file with the Python that auditkit is installed in"
    sys.exit(_complain("error: no Python with auditkit was found; {}".format(advice)))


def _complain(text):
    print(text, file=sys.stderr)
    return 2


def _auditkit(home):
    """The words that start auditkit, or none."""
    is_new_enough = sys.version_info >= (3, 11)
    if is_new_enough and importlib.util.find_spec("auditkit") and importlib.util.find_spec("typer"):
        return [sys.executable, "-P", "-m", "auditkit"]
    python = os.path.join(home, ".venv", "bin", "python")
    typer = os.path.join(home, ".venv", "lib", "python3*", "site-packages", "typer")
    if os.access(python, os.X_OK) and glob.glob(typer):
        return [python, "-P", "-m", "auditkit"]
    return [script for script in [shutil.which("auditkit")] if script]


def help_page(name, probe):
    """The help of the probe module `probe`: its claim, its method, its limits and its options."""
    reads_source = probe.PROBE.get("scope") == "source"
    options = {**(SOURCE_PROBE if reads_source else TARGET_PROBE), **ANY_PROBE}
    texts = [probe.__doc__.partition("\n")[0], "How: " + probe.PROBE["method"], "Limits: " + probe.PROBE["limits"]]
    target = "" if reads_source else " --target trainer.stats:grad_norm"
    return "\n\n".join(
        [
            "Usage: {} [options]".format(name),
            *(fill(text, WIDTH, break_on_hyphens=False, break_long_words=False) for text in texts),
            "Options:\n" + "\n".join("  {:<24}  {}".format(*row) for row in options.items()),
            "Example: {} \\\n    --checkout ../trainer{}".format(name, target),
            "All options: auditkit probe run --help",
        ]
    )
