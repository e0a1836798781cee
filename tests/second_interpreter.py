"""A second interpreter with the same torch, so that a matrix has two real arms where there is one torch."""

from __future__ import annotations

import sysconfig
import venv
from pathlib import Path


def make_interpreter(folder: Path, on_start: str = "") -> Path:
    """A virtual environment's python that imports from this one's site-packages.

    `on_start` is run by every process of it before anything else is imported. It has a device backend that cannot be
    imported, as where a package such as auditkit is installed from a folder that this interpreter does not know.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    paths = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    (packages / "torch_of_another.pth").write_text("".join(f"{path}\n" for path in paths), encoding="utf-8")
    metadata = packages / "backend_of_another-1.0.dist-info"
    metadata.mkdir()
    for name, text in (
        ("METADATA", "Metadata-Version: 2.1\nName: backend-of-another\nVersion: 1.0\n"),
        ("entry_points.txt", "[torch.backends]\nmissing = backend_of_another:load\n"),
    ):
        (metadata / name).write_text(text, encoding="utf-8")
    if on_start:
        (packages / "on_start.py").write_text(on_start, encoding="utf-8")
        (packages / "on_start.pth").write_text("import on_start\n", encoding="utf-8")
    return folder / "bin" / "python"
