"""Write the pages of docs/evidence that are about public code, as public_code.yaml says.

    python -m benchmarks.public_code seed-findings --clones FOLDER --python PYTHON
    python -m benchmarks.public_code seed-findings --page          # only the page, from the stored answers

FOLDER holds the clones that a page asks about, and PYTHON imports what they do: public_code.yaml names both. People
write the pages; a run replaces what stands between `<!-- written: NAME -->` and `<!-- /written -->`, stores its
answers in benchmarks/results, and ends with an error where an outcome is not the one on record: the verdicts were
written, after reading the code, for those outcomes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import yaml

from benchmarks import public_answers as answers
from benchmarks.evidence import (
    Document,
    Place,
    results_of,
    store_results,
    write_blocks,
)


def pages() -> dict[str, Document]:
    """What public_code.yaml says of each page, by its name."""
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    return {name: {**page, "name": name} for name, page in yaml.safe_load(text)["pages"].items()}


def write(page: Document, place: Place | None) -> list[str]:
    """Write one page and what it stores; returns what is not as on record."""
    written = answers.write(page, results_of(page["name"]) if place is None else answers.ask(page, place))
    if place is not None and written.stored is not None:
        store_results(page["name"], written.stored)
    write_blocks(page["name"], written.blocks)
    return written.others


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", choices=pages())
    parser.add_argument("--clones", type=Path, default=Path(), help="the folder that holds the clones")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--page", action="store_true", dest="stored", help="only write the page")
    options = parser.parse_args()
    page = pages()[options.page]
    with tempfile.TemporaryDirectory() as folder:
        place = None if options.stored else Place(Path(folder), options.clones, options.python)
        others = write(page, place)
    if others:
        raise SystemExit("not as on record:\n" + "\n".join(others))


if __name__ == "__main__":
    main()
