"""A file of spectra holds what was measured, or it is not there, or it is refused."""

import csv
import dataclasses
import gzip
import itertools
import json
import resource
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from auditkit.collectors.spectral.stream import (
    COLUMNS,
    ArrayDtype,
    Spectrum,
    array_from_json,
    array_to_json,
    count_rows,
    merge_spectra,
    power_of_two_scale,
    read_spectra,
    write_spectra,
)

DOCS = Path(__file__).resolve().parents[3] / "docs" / "spectral.md"


def spectrum(parameter: str, largest: float = 1.0, replicas: int = 3, directions: int = 4) -> Spectrum:
    values = largest * np.linspace(1.0, 0.1, replicas * directions, dtype=np.float32).reshape(replicas, directions)
    echo = np.linspace(1.0, -0.25, directions)
    return Spectrum(7, parameter, replicas, 5, directions, "bfloat16", "greedy", values, echo, echo / 16)


def written(path: Path, names: str, array_dtype: ArrayDtype = "float16") -> Path:
    write_spectra(path, "f1", len(names), map(spectrum, names), array_dtype)
    return path


@pytest.mark.parametrize("name", ["step.csv", "step.csv.gz"])
def test_what_is_read_is_what_was_measured(tmp_path: Path, name: str) -> None:
    """float32 exactly; float16 to half a unit in its last place, for gradients far below its smallest number."""
    tiny = spectrum('layers.0, "quoted"', largest=1e-20)
    for array_dtype, tolerance in (("float32", 0.0), ("float16", 2.0**-11)):
        write_spectra(tmp_path / name, "f1", 1, [tiny], array_dtype)  # type: ignore[arg-type]
        (back,) = read_spectra(tmp_path / name)
        np.testing.assert_allclose(back.svals_RD, tiny.svals_RD, rtol=tolerance)
        np.testing.assert_allclose(back.echo_D, tiny.echo_D, rtol=max(tolerance, 1e-7))
        for field in dataclasses.fields(Spectrum)[:7]:
            assert getattr(back, field.name) == getattr(tiny, field.name)
    assert not tiny.svals_RD.astype(np.float16).any()  # control: unscaled, as float16, nothing is left


def test_any_reader_of_csv_finds_the_documented_columns(tmp_path: Path) -> None:
    """The header, the cells of float16 arrays as JSON lists, and a page that describes each column."""
    with written(tmp_path / "step.csv", "ab").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert [(row["row"], row["row_count"], row["parameter"]) for row in rows] == [("1", "2", "a"), ("2", "2", "b")]
    assert json.loads(rows[0]["spectral_echo"])[0] == 1.0
    assert np.shape(json.loads(rows[0]["replicate_singular_values"])) == (3, 4)
    described = DOCS.read_text("utf-8")
    assert [column for column in COLUMNS if f"| `{column}` |" not in described] == []


@given(arrays(np.float16, st.integers(0, 20), elements=st.floats(-65504, 65504, width=16)))
def test_float16_arrays_survive_json(values: np.ndarray) -> None:
    assert array_from_json(array_to_json(values, "float16")).astype(np.float16).tobytes() == values.tobytes()


@given(st.floats(2.0**-126, 2.0**127, width=32))
def test_the_scale_is_a_power_of_two_that_uses_float16s_range(largest: float) -> None:
    scale = power_of_two_scale(np.array([0.0, largest]))
    assert np.frexp(scale)[0] == 0.5
    assert 2**14 <= largest / scale < 2**15
    assert power_of_two_scale(np.zeros((2, 3))) == 1.0


def test_the_same_spectra_give_the_same_bytes(tmp_path: Path) -> None:
    """Compressed, too: no time and no name in the file."""
    first, second = written(tmp_path / "a.csv.gz", "ab"), written(tmp_path / "b.csv.gz", "ab")
    assert first.read_bytes() == second.read_bytes()
    assert len(first.read_bytes()) < len(written(tmp_path / "c.csv", "ab").read_bytes())


@pytest.mark.parametrize("name", ["step.csv", "step.csv.gz"])
def test_a_file_that_was_cut_off_anywhere_is_refused(tmp_path: Path, name: str) -> None:
    """At every byte; csv by itself reads most of the cut files without a word."""
    whole = written(tmp_path / name, "ab").read_bytes()
    cut = tmp_path / f"cut-{name}"
    for length in range(0, len(whole), 7 if name.endswith("gz") else 1):
        cut.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="is not a whole file of spectra"):
            count_rows(cut, "f1")
    if name == "step.csv":
        cut.write_bytes(whole[:-1])
        assert len(list(csv.DictReader(cut.read_text().splitlines()))) == 2  # control: not refused


def test_an_uncompressed_file_cut_between_rows_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "step.csv", "abc")
    lines = path.read_text().splitlines(keepends=True)
    for kept, message in (
        ([0, 1, 2], "2 of 3 rows"),
        ([0, 2, 3], "row 1 says that it is row 2"),
        ([0], "0 of None rows"),
    ):
        path.write_text("".join(lines[line] for line in kept))
        with pytest.raises(ValueError, match=message):
            list(read_spectra(path))


def test_rows_of_other_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has the fingerprint f1, not f2: other settings"):
        count_rows(written(tmp_path / "step.csv", "a"), "f2")


def test_ranks_files_become_one_in_order_of_names(tmp_path: Path) -> None:
    parts = [written(tmp_path / "1.csv", "bd"), written(tmp_path / "2.csv", "ace")]
    merge_spectra(tmp_path / "all.csv", "f1", parts)
    assert (tmp_path / "all.csv").read_bytes() == written(tmp_path / "expected.csv", "abcde").read_bytes()
    parts[1].write_bytes(parts[1].read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"2\.csv is not a whole file"):
        merge_spectra(tmp_path / "half.csv", "f1", parts)
    assert not list(tmp_path.glob("half*"))


def failing() -> Iterator[Spectrum]:
    yield spectrum("a")
    raise ArithmeticError("the second one cannot be measured")


def test_what_fails_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    """Neither the file nor the one it would have become; one that was there before stays as it was."""
    with pytest.raises(ArithmeticError, match="the second one"):
        write_spectra(tmp_path / "step.csv", "f1", 2, failing(), "float16")
    with pytest.raises(ValueError, match=r"1 spectra for .* not the 2 that were announced"):
        write_spectra(tmp_path / "step.csv", "f1", 2, [spectrum("a")], "float16")
    nan = dataclasses.replace(spectrum("a"), echo_D=np.array([np.nan]))
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_spectra(tmp_path / "step.csv", "f1", 1, [nan], "float16")
    assert list(tmp_path.iterdir()) == []
    before = written(tmp_path / "step.csv", "a").read_bytes()
    with pytest.raises(ArithmeticError):
        write_spectra(tmp_path / "step.csv", "f1", 2, failing(), "float16")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [before]


def test_a_file_is_not_there_under_its_name_before_its_last_row(tmp_path: Path) -> None:
    seen = []

    def watched() -> Iterator[Spectrum]:
        for name in "abc":
            seen.append(sorted(path.name for path in tmp_path.iterdir()))
            yield spectrum(name)

    write_spectra(tmp_path / "step.csv", "f1", 3, watched(), "float16")
    assert seen == [["step.csv.partial"]] * 3
    assert [path.name for path in tmp_path.iterdir()] == ["step.csv"]


@pytest.mark.parametrize("name", ["step.csv", "step.csv.gz"])
def test_a_full_disk_is_one_clear_error_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    """No file may be larger than 20,000 bytes here, which is refused as a full disk is: in the middle of a write."""
    rows = (spectrum(f"layers.{index}", largest=index + 1, replicas=32, directions=32) for index in itertools.count())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(OSError, match=r"File too large; nothing was written: .*step\.csv") as caught:
            write_spectra(tmp_path / name, "f1", 100, rows, "float16")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.filename == str(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_the_device_that_is_always_full(tmp_path: Path) -> None:
    (tmp_path / "step.csv.partial").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device; nothing was written"):
        written(tmp_path / "step.csv", "a")
    assert list(tmp_path.iterdir()) == []


def test_large_cells_are_read_without_a_change_for_other_readers(tmp_path: Path) -> None:
    """64 replicas of 1024 values are more than the csv module takes; its limit is as before afterwards."""
    limit = csv.field_size_limit()
    large = spectrum("a", replicas=64, directions=1024)
    write_spectra(tmp_path / "step.csv", "f1", 1, [large], "float32")
    (back,) = read_spectra(tmp_path / "step.csv")
    np.testing.assert_array_equal(back.svals_RD, large.svals_RD)
    assert csv.field_size_limit() == limit
    with pytest.raises(csv.Error, match="field larger than"), (tmp_path / "step.csv").open(newline="") as file:
        list(csv.reader(file))


def test_gzip_files_are_what_gzip_reads(tmp_path: Path) -> None:
    path = written(tmp_path / "step.csv.gz", "a")
    assert gzip.decompress(path.read_bytes()) == written(tmp_path / "step.csv", "a").read_bytes()
