"""Which modules an import will miss: read from the files, with none of their code run."""

import ast
import importlib.util
import os
import sys
from typing import Dict, Iterable, Iterator, List, Optional, Set, Tuple

from .forgiven_imports import forgives

_DISTRIBUTIONS: Dict[str, str] = {
    "absl": "absl-py", "apex": "git+https://github.com/NVIDIA/apex", "attr": "attrs", "bs4": "beautifulsoup4",
    "clip": "git+https://github.com/openai/CLIP", "Crypto": "pycryptodome", "cv2": "opencv-python",
    "dateutil": "python-dateutil", "docx": "python-docx", "dotenv": "python-dotenv", "faiss": "faiss-cpu",
    "fitz": "PyMuPDF", "git": "GitPython", "github": "PyGithub", "google": "protobuf", "hydra": "hydra-core",
    "jose": "python-jose", "jwt": "PyJWT", "magic": "python-magic", "megatron": "megatron-core",
    "mpl_toolkits": "matplotlib", "OpenGL": "PyOpenGL", "osgeo": "GDAL", "PIL": "Pillow",
    "pkg_resources": "setuptools", "ruamel": "ruamel.yaml", "serial": "pyserial", "skimage": "scikit-image",
    "sklearn": "scikit-learn", "umap": "umap-learn", "wx": "wxPython", "yaml": "PyYAML", "zmq": "pyzmq",
}  # fmt: skip
"""What to install where that is not called as what is imported."""
_MOST_FILES = 2000


def distributions(modules: Iterable[str]) -> List[str]:
    """What to install for these modules."""
    return [_DISTRIBUTIONS.get(name, name) for name in modules]


def missing_modules(module_name: str, roots: List[str]) -> List[str]:
    """The modules from outside that importing `module_name` asks for, at once or by way of others, and nobody has.

    Left out is what a test or a handler may let the code do without, and what is imported when a function is called.
    """
    waiting = [module_name]
    seen: Set[str] = set()
    outside: Set[str] = set()
    while waiting and len(seen) < _MOST_FILES:
        name = waiting.pop()
        file = _file_of(name, roots)
        if name in seen or file is None:
            continue
        seen.add(name)
        for imported, names in _imports(name, file):
            if _is_own(imported.partition(".")[0], roots):
                parts = imported.split(".")
                waiting += [".".join(parts[: end + 1]) for end in range(len(parts))]
                waiting += ["{}.{}".format(imported, one) for one in names]
            else:
                outside.add(imported.partition(".")[0])
    return sorted(filter(_is_missing, outside))


def _is_missing(name: str) -> bool:
    try:
        return name not in sys.modules and importlib.util.find_spec(name) is None
    except (ImportError, ValueError):
        return False  # a finder of somebody's own that does not answer


def _is_own(name: str, roots: List[str]) -> bool:
    return any(os.path.exists(os.path.join(root, name + end)) for root in roots for end in ("", ".py"))


def _file_of(name: str, roots: List[str]) -> Optional[str]:
    relative = os.path.join(*name.split("."))
    files = [os.path.join(root, relative, "__init__.py") for root in roots]
    files += [os.path.join(root, relative + ".py") for root in roots]
    return next(filter(os.path.isfile, files), None)


def _imports(name: str, file: str) -> Iterator[Tuple[str, List[str]]]:
    """The modules that a file imports as it is run, by their full names, each with the names taken from it."""
    try:
        with open(file, "rb") as source:
            tree = ast.parse(source.read())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    package = name if os.path.basename(file) == "__init__.py" else name.rpartition(".")[0]
    for statement in _always_run(tree.body):
        if isinstance(statement, ast.Import):
            yield from ((alias.name, []) for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - statement.level + 1] if statement.level else []
            module = ".".join([*above, *([statement.module] if statement.module else [])])
            if module:
                yield module, [alias.name for alias in statement.names]


def _always_run(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in statements:
        yield statement
        if isinstance(statement, ast.ClassDef):
            yield from _always_run(statement.body)
        elif isinstance(statement, (ast.Try, ast.With)):
            always = [] if forgives(statement) else statement.body
            yield from _always_run([*always, *getattr(statement, "finalbody", ())])
