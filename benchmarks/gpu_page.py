"""docs/evidence/gpu.md, and what other pages say of a GPU, from what `benchmarks.gpu_evidence` measured.

    python -m benchmarks.gpu_page

Where benchmarks/results has no gpu_PART.json, every figure of that part is "not measured".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.evidence import EVIDENCE, RESULTS, ROOT, fill, rows
from benchmarks.gpu_evidence import PARTS
from benchmarks.gpu_memory import LAW_SIZE, MEASURED, SIZES
from benchmarks.gpu_rows import Document
from benchmarks.gpu_speed import CALLED, CASES, COPY, IN_STEP, OTHERS, SHAPES, Case, applies
from benchmarks.rival_collectors import OURS

NOT_MEASURED = "not measured"
TRUTH = {
    "instruments that read their toys": ("instrument", "agrees"),
    "toys counted by hand, simulated and measured": ("toy", "agrees"),
    "collectors with the same synchronisations, and launches that grow in both or in neither": ("traffic", "agrees"),
    "collectors whose synchronisations are on the same lines": ("traffic", "lines_agree"),
    "collectors with the CPU's outcomes of the numeric probes": ("outcomes", "agrees"),
    "files of `tests/gpu` that pass": ("pytest", "agrees"),
}
AUDITED = ("bundled", "spectral")
LAW_TOLERANCE, NO_SPIKE = 0.1, 0.01
"""The CPU's ratio holds within a tenth of it, or where both are below a hundredth of the gradients."""
Parts = Mapping[str, Document]


def read_parts(folder: Path = RESULTS) -> dict[str, Document]:
    """The parts that were measured on a GPU. Raises SystemExit for what is none."""
    paths = {part: folder / f"gpu_{part}.json" for part in PARTS}
    parts = {part: json.loads(path.read_text(encoding="utf-8")) for part, path in paths.items() if path.exists()}
    for part, document in parts.items():
        if document["is_preflight"] or not document["cuda"]:
            raise SystemExit(f"{paths[part]} is no evidence: {document['device']}")
    return parts


def blocks(parts: Parts) -> dict[Path, dict[str, str]]:
    """The marked blocks of every page that speaks of a GPU."""
    return {
        EVIDENCE / "gpu.md": {
            "environment": _environment(parts),
            "truth": rows(("what", "asked", "so", "not so"), (_truth_row(parts, title) for title in TRUTH)),
            "audit": _audit(parts),
            "differences": _differences(parts),
            "memory": _memory(parts),
            **{f"speed-{model}": _speed(parts, model) for model in SHAPES},
            "training": _training(parts),
        },
        ROOT / "README.md": {"gpu": _sentence(parts)},
        ROOT / "docs" / "design" / "collectors.md": {"gpu": _collectors(parts)},
    }


def _found(parts: Parts, part: str, name: str) -> Document:
    """A row that was measured without an error; empty where there is none."""
    row: Document = parts.get(part, {}).get("rows", {}).get(name, {})
    return {} if "error" in row else row


def _cell(parts: Parts, part: str, name: str, shown: Any) -> str:
    """What `shown` makes of a row; its error; or that it was not measured."""
    row = parts.get(part, {}).get("rows", {}).get(name)
    if row is None:
        return NOT_MEASURED
    return _clean(row["error"].partition(":")[0]) if "error" in row else str(shown(row))


def _clean(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "\\<")


def _environment(parts: Parts) -> str:
    lines = []
    for part in PARTS:
        said = parts.get(part)
        if said is None:
            lines.append(f"- {part}: {NOT_MEASURED}")
            continue
        errors = sum("error" in row for row in said["rows"].values())
        missing = f"; {len(said['missing'])} rows are missing: {said['ended']}" if said["missing"] else ""
        lines.append(
            f"- {part}: {said['device']}, torch {said['torch']}, CUDA {said['cuda']}, Triton {said['triton']}, Python "
            f"{said['python']}, revision {said['revision']}; {len(said['rows'])} rows, {errors} with an error{missing}"
        )
    return "\n".join(lines)


def _of_kind(parts: Parts, prefix: str) -> dict[str, Document]:
    found = parts.get("truth", {}).get("rows", {})
    return {name: row for name, row in found.items() if name.startswith(f"{prefix} ")}


def _truth_row(parts: Parts, title: str) -> tuple[str, ...]:
    prefix, key = TRUTH[title]
    asked = _of_kind(parts, prefix)
    if not asked:
        return (title, *[NOT_MEASURED] * 3)
    so = sum(bool(row.get(key)) for row in asked.values())
    return title, str(len(asked)), str(so), str(len(asked) - so)


def _audit(parts: Parts) -> str:
    def counts(row: Document) -> str:
        return ", ".join(f"{count} {outcome.replace('_', ' ')}" for outcome, count in row["summary"].items())

    said = {name: _cell(parts, "truth", f"audit of the {name} specimen", counts) for name in AUDITED}
    return "\n".join(f"- Audit of the {name} specimen on the device: {text}." for name, text in said.items())


def _differences(parts: Parts) -> str:
    if "truth" not in parts:
        return "Not measured."
    lines = [f"- `{name}`: {_clean(_difference(row))}" for name, row in parts["truth"]["rows"].items() if _differs(row)]
    return "\n".join(lines) or "None."


def _differs(row: Document) -> bool:
    return "error" in row or not row.get("agrees", True) or not row.get("lines_agree", True)


def _difference(row: Document) -> str:
    """How simulation or the CPU and the device differ, in one line."""
    if "error" in row:
        return str(row["error"])
    said = [
        f"{case['what']} of {case['tensors']} gradients: {_counted(case['simulated'])} simulated, "
        f"{_counted(case['measured'])} measured"
        for case in row.get("cases", ())
        if case["what"] != "launches" and case["simulated"] != case["measured"]
    ]
    if row.get("launches_grow", {}).get("simulated") != row.get("launches_grow", {}).get("measured"):
        said.append("launches grow in one of the two")
    said += [f"{probe}: {row['CPU'][probe]['outcome']} on the CPU, {row['device'][probe]['outcome']} on the device"
             for probe in row.get("differing", ())]  # fmt: skip
    said += row.get("failed_tests", [])
    return "; ".join(said) or ", ".join(f"{key} {value}" for key, value in row.items() if key not in ("output_tail",))


def _counted(said: Document) -> str:
    return f"{said['count']} at {', '.join(said['lines']) or 'no line'}" if "count" in said else str(said["raises"])


def _memory(parts: Parts) -> str:
    columns = [f"CPU {LAW_SIZE}", *(f"device {size}" for size in SIZES)]
    cells = []
    for name in MEASURED:
        ratios = [_cell(parts, "memory", f"{column} {name}", lambda row: f"{row['ratio']:.3g}") for column in columns]
        cells.append((name, *ratios, _law_holds(parts, name)))
    return rows(("collector", *columns, "the CPU's ratio holds"), cells)


def _law_holds(parts: Parts, name: str) -> str:
    """At every measured size from that of the CPU's ratio on."""
    law = _found(parts, "memory", f"CPU {LAW_SIZE} {name}")
    sizes = list(SIZES)[list(SIZES).index(LAW_SIZE) :]
    on_device = [row["ratio"] for size in sizes if (row := _found(parts, "memory", f"device {size} {name}"))]
    if not law or not on_device:
        return NOT_MEASURED
    holds = [
        abs(ratio - law["ratio"]) <= LAW_TOLERANCE * law["ratio"] or max(ratio, law["ratio"]) < NO_SPIKE
        for ratio in on_device
    ]
    return "yes" if all(holds) else "no"


def _speed(parts: Parts, model: str) -> str:
    cases = [case for case in CASES if case.model == model]
    limit = _found(parts, "speed", f"{model}: {COPY}").get("bytes_per_s")

    def shown(row: Document) -> str:
        shares = [f"{row['bytes_per_s'] / limit:.0%} of the copy"] if limit else []
        shares += [f"{row['share_of_nominal']:.0%} of the memory's"] if "share_of_nominal" in row else []
        return f"{row['ms'][1]:.3f} ms, {row['bytes_per_s'] / 1e9:,.0f} GB/s{''.join(f', {share}' for share in shares)}"

    def timed(case: Case, name: str) -> str:
        return _cell(parts, "speed", f"{' '.join(case)}: {name}", shown) if applies(case, name) else "has none"

    def line(name: str) -> tuple[str, ...]:
        return name, *(timed(case, name) for case in cases)

    copied = _cell(parts, "speed", f"{model}: {COPY}", shown)
    cells = [(f"{COPY}, read and written", copied, *[""] * (len(cases) - 1)), *map(line, [*CALLED, *OTHERS])]
    return rows((model, *(f"{case.dtype} {case.layout}" for case in cases)), cells)


def _training(parts: Parts) -> str:
    def cells(kind: str, name: str) -> tuple[str, str]:
        plain = _found(parts, "speed", f"training {kind}: no statistics").get("ms")

        def overhead(row: Document) -> str:
            return f"{row['ms'][1] / plain[1] - 1:+.1%}" if plain else NOT_MEASURED

        row_name = f"training {kind}: {name}"
        return _cell(parts, "speed", row_name, lambda row: f"{row['ms'][1]:.3f}"), _cell(
            parts, "speed", row_name, overhead
        )

    titles = ("in each step", "eager, ms", "over none", "CUDA graph, ms", "over none")
    return rows(titles, ((name, *cells("eager", name), *cells("CUDA graph", name)) for name in IN_STEP))


# --- other pages -------------------------------------------------------------------------------------------


def _sentence(parts: Parts) -> str:
    page = "[docs/evidence/gpu.md](docs/evidence/gpu.md)"
    asked = _of_kind(parts, "traffic")
    if not asked:
        return f"No number of this repository comes from a GPU yet: {page} lists what is not measured."
    same = sum(bool(row.get("agrees")) for row in asked.values())
    device = parts["truth"]["device"]
    return f"On {device} simulated traffic was the measured one for {same} of {len(asked)} collectors: {page}."


def _collectors(parts: Parts) -> str:
    def passed(row: Document) -> str:
        return f"{row.get('passed', 0)} tests pass, {row.get('failed', 0) + row.get('error', 0)} fail"

    def time(row: Document) -> str:
        return f"{row['ms'][1]:.3f} ms, {row['bytes_per_s'] / 1e9:,.0f} GB/s"

    state = _cell(parts, "truth", "pytest test_collectors_gpu.py", passed)
    cells = [
        (f"{what}: `tests/gpu/test_collectors_gpu.py`", state)
        for what in ("numerics", "syncs, copies, launches", "capture and replay", "extra memory at 100M")
    ]
    cells += [
        (f"time of {model} float32", _cell(parts, "speed", f"{model} float32 contiguous: {OURS}", time))
        for model in SHAPES
    ]
    return rows(("what", "state"), cells)


def main() -> None:
    """Write the blocks of every page."""
    for page, written in blocks(read_parts()).items():
        page.write_text(fill(page.read_text(encoding="utf-8"), written), encoding="utf-8")
        print(page)


if __name__ == "__main__":
    main()
