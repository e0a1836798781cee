"""Write docs/evidence/speed-and-accuracy.md: public loops, wrong ones and sound ones.

    python -m benchmarks.training_steps --environments FOLDER --clones FOLDER
    python -m benchmarks.training_steps --page      # only the page, from the stored answers

Missing environments are made with pip. The clones are pytorch/examples, milesial/Pytorch-UNet and pytorch/torchtune.
A run fails if the probes that reproduce are not those on record.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.evidence import ROOT, Document, Place, results_of, rows, store_results, write_blocks

PAGE = "training-steps"
TORCH = ("torch==2.13.0", "numpy")
LIBRARIES = ("transformers==5.23.0", "accelerate==1.15.0", "lightning==2.6.6")
SPECIMEN = f"--checkout {ROOT / 'probes' / 'specimens' / 'training_steps'} --target trainsteps.sound"
UNET = "--checkout Pytorch-UNet@52b4f14{} --target train.py:train_model#training_step"
RECIPE = "recipes/lora_finetune_single_device.py:LoRAFinetuneRecipeSingleDevice.train"
EXAMPLE = "--checkout examples --target distributed/minGPT-ddp/mingpt/trainer.py:Trainer._run_batch"
RED = ("accumulation_differs_from_full_batch",)
SCALED = ("clip_on_scaled_gradients",)


class Subject(NamedTuple):
    """One trainer: what is installed beside torch, the options that name it, and the probes that are red on it."""

    name: str
    packages: tuple[str, ...]
    options: str
    red: tuple[str, ...] = ()


SUBJECTS = (
    Subject("examples: minGPT-ddp", LIBRARIES, EXAMPLE, SCALED),
    Subject("Pytorch-UNet before 52b4f14", LIBRARIES, UNET.format("~1"), SCALED),
    Subject("Pytorch-UNet 52b4f14", LIBRARIES, UNET.format("")),
    Subject("torchtune before #1875", LIBRARIES, f"--checkout torchtune@23c8829ac~1 --target {RECIPE}", RED),
    Subject("torchtune #1875", LIBRARIES, f"--checkout torchtune@23c8829ac --target {RECIPE}"),
    Subject("torchtune #1917", LIBRARIES, f"--checkout torchtune@2fa6a54a2 --target {RECIPE}"),
    Subject("a plain loop", LIBRARIES, f"{SPECIMEN}:train_and_clip"),
    Subject("a loop by tokens, as torchtitan's", LIBRARIES, f"{SPECIMEN}:train_by_token"),
)


def interpreter(packages: Sequence[str], folder: Path) -> str:
    """The interpreter of an environment with torch and `packages`, made where it is not there."""
    place = folder / re.sub(r"[=<]+", "-", "-".join(packages))
    if not (place / "made").exists():
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run([place / "bin" / "python", "-m", "pip", "install", "-q", *TORCH, *packages], check=True)
        (place / "made").touch()
    return str(place / "bin" / "python")


def ask(place: Place, environments: Path) -> Iterator[Document]:
    """Every subject's answers to the probes of training steps."""
    probes = [each["id"] for each in place.document("probe list")["probes"] if "train_step" in each["contracts"]]
    for subject in SUBJECTS:
        python = interpreter(subject.packages, environments)
        words = f"probe run {' '.join(probes)} {subject.options} --contract train_step --python {python}"
        document = place.document(words)
        red = ("severity", "message", "location")
        results = [{key: each.get(key) for key in ("probe", "outcome", *(red if each["severity"] else ()))}
                   for each in document["results"]]  # fmt: skip
        figures = [each for result in document["results"] for each in result["measurements"] if is_figure(each)]
        yield {"subject": subject.name, "torch": document["run"]["torch"], "results": results, "figures": figures,
               "slowest_s": max(each["duration_s"] for each in document["results"])}  # fmt: skip


def is_figure(measurement: Document) -> bool:
    """Whether it is one of four micro-batches against one batch."""
    case = measurement["case"]
    return measurement["name"] in ("norm_ratio", "cosine") and "targets" in case and case["micro_batches"] == 4


def page(stored: Sequence[Document]) -> tuple[dict[str, str], list[str]]:
    """The blocks of the page, and each subject whose red probes are not those on record."""
    lines, answers, others = [], [], []
    for subject, row in zip(SUBJECTS, stored, strict=True):
        by_outcome: dict[str, list[Document]] = {}
        for result in row["results"]:
            by_outcome.setdefault(result["outcome"], []).append(result)
        red = by_outcome.get("reproduced", [])
        if tuple(each["probe"] for each in red) != subject.red:
            others.append(f"{subject.name}: {', '.join(each['probe'] for each in red) or 'nothing'}")
        counts = [len(by_outcome.get(name, ())) for name in ("reproduced", "not_reproduced", "not_applicable")]
        lines.append([subject.name, *figures(row), *counts, f"{row['slowest_s']:.1f} s"])
        answers += [f"- {subject.name}: {told(each)}" for each in red]
    titles = (
        "trainer",
        "even: norm",
        "uneven: norm",
        "cosine",
        "reproduced",
        "not reproduced",
        "not applicable",
        "slowest",
    )
    return {"answers": rows(titles, lines), "findings": "\n".join(answers)}, others


def figures(row: Document) -> list[str]:
    """Norm ratio of four even and of four uneven micro-batches, and the cosine of those."""
    cases = (("norm_ratio", "even"), ("norm_ratio", "uneven"), ("cosine", "uneven"))
    found = {(each["name"], each["case"]["targets"]): each["value"] for each in row["figures"]}
    return [f"{found[case]:.4f}" if case in found else "" for case in cases]


def told(result: Document) -> str:
    place = result["location"] or {"file": "", "line": ""}
    return f"{result['severity']} `{result['probe']}` at {place['file']}:{place['line']}: {result['message']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", type=Path, default=Path("environments"))
    parser.add_argument("--clones", type=Path, default=Path())
    parser.add_argument("--page", action="store_true", dest="stored", help="only write the page")
    options = parser.parse_args()
    if not options.stored:
        with tempfile.TemporaryDirectory() as folder:
            place = Place(Path(folder), options.clones, sys.executable)
            environments = options.environments.resolve()
            store_results(PAGE, {"rows": list(ask(place, environments))})
    results = results_of(PAGE)
    blocks, others = page(results["rows"])
    write_blocks(PAGE, blocks)
    if others:
        raise SystemExit("not as on record:\n" + "\n".join(others))


if __name__ == "__main__":
    main()
