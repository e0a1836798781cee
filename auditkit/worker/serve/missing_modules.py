"""What to install for a missing module, and whether code handles its absence: read from its file."""

import ast
import os
from types import FrameType
from typing import Any, Dict, Iterable, List, Optional, Sequence, Set

from .cut_out import last_word, statements_of

_DISTRIBUTIONS: Dict[str, str] = {
    "absl": "absl-py", "amp_C": "git+https://github.com/NVIDIA/apex", "apex": "git+https://github.com/NVIDIA/apex",
    "attr": "attrs", "bs4": "beautifulsoup4",
    "clip": "git+https://github.com/openai/CLIP", "Crypto": "pycryptodome", "cv2": "opencv-python",
    "dateutil": "python-dateutil", "docx": "python-docx", "dora": "dora-search", "dotenv": "python-dotenv",
    "faiss": "faiss-cpu", "flash_attn": "flash-attn",
    "fitz": "PyMuPDF", "git": "GitPython", "github": "PyGithub", "google": "protobuf", "hydra": "hydra-core",
    "jose": "python-jose", "jwt": "PyJWT", "magic": "python-magic", "megatron": "megatron-core",
    "mpl_toolkits": "matplotlib", "OpenGL": "PyOpenGL", "osgeo": "GDAL", "PIL": "Pillow",
    "pkg_resources": "setuptools", "ruamel": "ruamel.yaml", "serial": "pyserial", "skimage": "scikit-image",
    "sklearn": "scikit-learn", "transformer_engine": "transformer-engine",
    "umap": "umap-learn", "wx": "wxPython", "yaml": "PyYAML", "zmq": "pyzmq",
}  # fmt: skip
"""The distribution of a module with another name."""
_MISSES = frozenset(("ImportError", "ModuleNotFoundError", "Exception", "BaseException"))
_ENDS = frozenset(("exit", "_exit", "quit"))
_WORKER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# Files whose frames are between an import and the statement that needs it.
_MACHINERY = tuple(os.path.join(_WORKER, "serve", name) for name in ("placeholders.py", "cut_out.py"))


def distributions(modules: Iterable[str]) -> List[str]:
    """Return the distributions to install for these modules, each once."""
    return list(dict.fromkeys(_DISTRIBUTIONS.get(name, name) for name in modules))


def is_own(name: str, roots: List[str]) -> bool:
    """Return whether the checkout has a module or a folder of that name."""
    return any(os.path.exists(os.path.join(root, name + end)) for root in roots for end in ("", ".py"))


def _statements(path: str) -> List[ast.stmt]:
    """Return the statements of a file; none if it cannot be read."""
    try:
        return [each.node for each in statements_of(path).all]
    except (OSError, ValueError, SyntaxError, RecursionError):
        return []


def is_forgiven(frame: Optional[FrameType]) -> bool:
    """Return whether code between `frame` and auditkit's loader catches a failed import."""
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(_WORKER) and path not in _MACHINERY:
            return False
        if path not in _MACHINERY and path[:1] != "<" and _is_caught(path, frame.f_lineno):
            return True
        frame = frame.f_back
    return False


def _is_caught(path: str, line: int) -> bool:
    """Return whether a line of a file is inside a statement that catches a failed import."""
    around = (each for each in _statements(path) if _spans([each], line))
    nodes = (node for statement in around for node in ast.walk(statement))
    bodies = (node.body for node in nodes if isinstance(node, (ast.Try, ast.With)) and _forgives(node))
    return any(_spans(body, line) for body in bodies)


def _spans(body: Sequence[ast.stmt], line: int) -> bool:
    return body[0].lineno <= line <= (body[-1].end_lineno or body[-1].lineno)


def _forgives(statement: Any) -> bool:
    """Return whether a `try` or a `with` continues after a failed import in its body."""
    if isinstance(statement, ast.With):
        calls = [item.context_expr for item in statement.items if isinstance(item.context_expr, ast.Call)]
        return any(last_word(call.func) == "suppress" and _last_words(call.args) & _MISSES for call in calls)
    catching = [each for each in statement.handlers if each.type is None or _last_words([each.type]) & _MISSES]
    return bool(catching) and not _ends(catching[0].body[-1])


def _ends(last: ast.stmt) -> bool:
    """Return whether a handler only reports the missing module: its last statement raises again, or exits."""
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        return last_word(last.value.func) in _ENDS
    return isinstance(last, ast.Raise)


def _last_words(expressions: Sequence[ast.expr]) -> Set[str]:
    return {last_word(node) for each in expressions for node in ast.walk(each) if isinstance(node, ast.expr)}
