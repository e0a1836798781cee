"""What makes a probe file a program: `probes/norm_overflows_on_finite_grads.py --checkout DIR --target M:F`."""

import glob
import importlib.util
import os
import shlex
import shutil
import sys

WIDTH = 79
ANY_PROBE = {
    "--checkout DIR[@REV]": "The code to ask; default: this folder.",
    "--tickets DIR": "File what reproduces there; default: file nothing.",
    "--json": "Print one JSON document.",
    "--cage": "Run everything in a sandbox.",
    "-h, --help": "Show this page.",
}
SOURCE_PROBE = {
    "--target MODULE:FUNCTION": "Only this function's module; default: every file.",
}
TARGET_PROBE = {
    "--target MODULE:FUNCTION": "The collector to ask; default: all that are found.",
    "--contract NAME": "What it promises, such as grad_norm.",
    "--takes HOW": "module, parameters, named_parameters or gradients.",
    "--argument NAME=VALUE": "A further argument; VALUE may be JSON.",
    "--python PATH": "The checkout's interpreter; default: its .venv.",
    "--device NAME": "auto, cuda, cpu or simulated.",
}


def run_alone(path):
    """Print the probe's own help, or replace this process by `auditkit probe run PATH ...`.

    The interpreter is the running one where auditkit is installed in it, else that of the clone's .venv, else that
    of the `auditkit` on PATH. Without any, one line says what to do, and the exit code is 2.
    """
    path = os.path.abspath(path)
    home = os.path.dirname(os.path.dirname(path))
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(help_page(os.path.basename(path), sys.modules["__main__"]))
        return
    command = _auditkit(home)
    is_clone = os.path.isfile(os.path.join(home, "auditkit", "__init__.py"))
    if is_clone:
        paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    try:
        if command:
            words = [word for word in sys.argv[1:] if word != "--cage"]
            cage = ["--cage"] if "--cage" in sys.argv else []
            os.execv(command[0], [*command, *cage, "probe", "run", path, *words])
    except OSError:  # an interpreter of another machine, or one that is gone
        pass
    install = "cd {} && python3 -m venv .venv && .venv/bin/pip install .".format(shlex.quote(home))
    advice = "install it: " + install if is_clone else "run this file with the Python that auditkit is installed in"
    print("error: no Python with auditkit was found; {}".format(advice), file=sys.stderr)
    sys.exit(2)


def _auditkit(home):
    """The words that start auditkit, or none."""
    is_new_enough = sys.version_info >= (3, 11)
    if is_new_enough and importlib.util.find_spec("auditkit") and importlib.util.find_spec("typer"):
        return [sys.executable, "-P", "-m", "auditkit"]
    own = os.path.join(home, ".venv")
    python = os.path.join(own, "bin", "python")
    if os.access(python, os.X_OK) and glob.glob(os.path.join(own, "lib", "python3*", "site-packages", "typer")):
        return [python, "-P", "-m", "auditkit"]
    return [script for script in [shutil.which("auditkit")] if script]


def help_page(name, probe):
    """What one probe asks, how, what it cannot see, and its options; `probe` is its module."""
    from textwrap import fill

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
