"""Spectra as CSV files, one row for each parameter, that are there under their name only when they are whole.

The schema is in docs/spectral.md. A row is written as soon as it is measured, into a file beside the one it will
be; that is renamed once its last row is on the disk. Every row says how many there are, so a file that was cut off
later, by a copy that broke off, is found out too.
"""

import contextlib
import csv
import gzip
import heapq
import io
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, TextIO

import numpy as np
from numpy.typing import NDArray

ArrayDtype = Literal["float16", "float32"]

COLUMNS = (
    "fingerprint", "step", "row", "row_count", "parameter", "replicas", "matrix_rows", "matrix_columns", "dtype",
    "assignment", "singular_value_scale", "replicate_singular_values", "spectral_echo", "spectral_echo_standard_error",
)  # fmt: skip
_PLAIN: Mapping[str, type] = {
    "step": int, "parameter": str, "replicas": int, "matrix_rows": int, "matrix_columns": int, "dtype": str,
    "assignment": str,
}  # fmt: skip
"""The columns that hold a field of `Spectrum` as it is."""
PARTIAL = ".partial"
"""What is appended to the name of a file that is being written."""


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """The singular values, R x D, and the echoes, D, of one parameter at one step."""

    step: int
    parameter: str
    replicas: int
    matrix_rows: int
    matrix_columns: int
    dtype: str
    assignment: str
    svals_RD: NDArray[np.floating]
    echo_D: NDArray[np.floating]
    standard_error_D: NDArray[np.floating]

    def cells(self, array_dtype: ArrayDtype) -> dict[str, str | int | float]:
        """Return the columns of this spectrum, its arrays as JSON of numbers of `array_dtype`."""
        scale = power_of_two_scale(self.svals_RD) if array_dtype == "float16" else 1.0
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "singular_value_scale": scale,
            "replicate_singular_values": array_to_json(self.svals_RD / scale, array_dtype),
            "spectral_echo": array_to_json(self.echo_D, array_dtype),
            "spectral_echo_standard_error": array_to_json(self.standard_error_D, array_dtype),
        }

    @classmethod
    def from_cells(cls, cells: Mapping[str, str]) -> "Spectrum":
        """Return the spectrum of one row. Raises ValueError for what cannot be read."""
        svals_RD = array_from_json(cells["replicate_singular_values"]) * float(cells["singular_value_scale"])
        return cls(
            **{name: kind(cells[name]) for name, kind in _PLAIN.items()},
            svals_RD=svals_RD,
            echo_D=array_from_json(cells["spectral_echo"]),
            standard_error_D=array_from_json(cells["spectral_echo_standard_error"]),
        )


def power_of_two_scale(values: NDArray[np.floating]) -> float:
    """Return the power of two that brings the largest of `values` into float16's last but one binade.

    Gradients are often smaller than 6e-5, below which float16 loses digits. Dividing by a power of two changes
    none, and values down to 4e-9 of the largest one keep all 11 bits.
    """
    largest = float(np.max(values, initial=0.0))
    return math.ldexp(1.0, math.frexp(largest)[1] - 15) if largest > 0 else 1.0


def array_to_json(values: NDArray[np.floating], array_dtype: ArrayDtype) -> str:
    """Return nested JSON lists of the shortest decimals that give the same numbers of `array_dtype` back."""
    shortest = np.asarray(values).astype(array_dtype).astype(str).astype(np.float64)
    return json.dumps(shortest.tolist(), allow_nan=False, separators=(",", ":"))


def array_from_json(text: str) -> NDArray[np.float32]:
    """Return the array of such JSON. Raises ValueError for what is none."""
    return np.asarray(json.loads(text), dtype=np.float32)


def write_spectra(
    path: Path, fingerprint: str, row_count: int, spectra: Iterable[Spectrum], array_dtype: ArrayDtype
) -> None:
    """Write `row_count` spectra as they come; the file has its name when the last one is on the disk.

    A name that ends with .gz is compressed. Whatever fails, nothing is left there; an OSError says what failed.
    """
    _write_rows(path, fingerprint, row_count, (spectrum.cells(array_dtype) for spectrum in spectra))


def merge_spectra(path: Path, fingerprint: str, parts: Sequence[Path]) -> None:
    """Write one file from the files of all ranks, in order of the parameters' names, a row in memory at a time.

    Raises ValueError for a part that is not whole or of another fingerprint, and OSError.
    """
    row_count = sum(count_rows(part, fingerprint) for part in parts)
    rows = heapq.merge(*map(_read_rows, parts), key=itemgetter("parameter"))
    _write_rows(path, fingerprint, row_count, rows)


def read_spectra(path: Path) -> Iterator[Spectrum]:
    """Yield the spectra of a file. Raises ValueError, after the rows that are there, where it is not whole."""
    for cells in _read_rows(path):
        yield Spectrum.from_cells(cells)


def count_rows(path: Path, fingerprint: str) -> int:
    """Return how many rows a whole file has.

    Raises ValueError where it is not whole or holds rows of another fingerprint.
    """
    count = 0
    for cells in _read_rows(path):
        if cells["fingerprint"] != fingerprint:
            raise ValueError(f"{path} has the fingerprint {cells['fingerprint']}, not {fingerprint}: other settings")
        count += 1
    return count


def _write_rows(path: Path, fingerprint: str, row_count: int, rows: Iterable[Mapping[str, Any]]) -> None:
    with written_whole(path) as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        written = 0
        for written, cells in enumerate(rows, 1):
            writer.writerow({**cells, "fingerprint": fingerprint, "row": written, "row_count": row_count})
            file.flush()
        if written != row_count:
            raise ValueError(f"{written} spectra for {path}, not the {row_count} that were announced")


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[TextIO]:
    """Open a file for writing that has its name once this is left without an error, and is gone otherwise."""
    partial = path.with_name(path.name + PARTIAL)
    try:
        with partial.open("wb") as raw, _text(raw, path) as file:
            yield file
            file.flush()
        _sync(partial)
        partial.replace(path)
        _sync(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            raise OSError(error.errno, f"{os.strerror(error.errno)}; nothing was written", str(path)) from error
        raise


@contextlib.contextmanager
def _text(raw: Any, path: Path) -> Iterator[TextIO]:
    """The text layer over a binary file, compressed where its name says so; the same rows give the same bytes."""
    if path.suffix != ".gz":
        with io.TextIOWrapper(raw, encoding="utf-8", newline="") as file:
            yield file
        return
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="") as file,
    ):
        yield file


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read_rows(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a file as text by column. Raises ValueError where it is not whole."""
    opened = gzip.open if path.suffix == ".gz" else open
    row, row_count = 0, None
    try:
        with opened(path, "rt", encoding="utf-8", newline="") as file:
            for row, cells in enumerate(_checked_rows(file), 1):
                if cells["row"] != str(row):
                    raise ValueError(f"row {row} says that it is row {cells['row']}")
                row_count = int(cells["row_count"])
                yield cells
    except (EOFError, csv.Error, ValueError, gzip.BadGzipFile, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a whole file of spectra: {error}") from error
    if row != row_count:
        raise ValueError(f"{path} is not a whole file of spectra: {row} of {row_count} rows")


def _checked_rows(file: Iterable[str]) -> Iterator[dict[str, str]]:
    for line, text in enumerate(file, 1):
        if not text.endswith("\n"):
            raise ValueError(f"line {line} breaks off")
        cells = _split(text)
        if line == 1 and tuple(cells) != COLUMNS:
            raise ValueError("its first line does not name the columns")
        if len(cells) != len(COLUMNS):
            raise ValueError(f"line {line} has {len(cells)} cells, not {len(COLUMNS)}")
        if line > 1:
            yield dict(zip(COLUMNS, cells, strict=True))


def _split(line: str) -> list[str]:
    """Return the cells of one line: no cell holds a line break."""
    # The limit of the csv module, 131,072 characters a cell, is less than 64 x 1024 singular values take.
    before = csv.field_size_limit(sys.maxsize)
    try:
        return next(csv.reader([line], strict=True))
    finally:
        csv.field_size_limit(before)
