"""Draws the spectra that train_with_spectra.py measured: singular values and echoes per layer over steps.

    python examples/plot_spectra.py spectra

Writes singular-values.svg and echoes.svg into the folder of the spectra, or where --to says. Needs matplotlib.
"""

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib import pyplot
from matplotlib.axes import Axes

from auditkit.collectors.spectral.stream import Spectrum, read_spectra

DIRECTIONS = (1, 2, 4, 8, 16, 32)
"""The directions that are drawn, counted from the largest singular value of the reference."""


def read_folder(folder: Path) -> dict[str, list[Spectrum]]:
    """Return the spectra of every parameter in order of steps, of the files of whole steps."""
    by_parameter: dict[str, list[Spectrum]] = defaultdict(list)
    for path in sorted(folder.iterdir()):
        if re.fullmatch(r"step-\d+\.csv(\.gz)?", path.name):
            for spectrum in read_spectra(path):
                by_parameter[spectrum.parameter].append(spectrum)
    return dict(sorted(by_parameter.items()))


def draw_singular_values(axes: Axes, steps: list[int], spectra: list[Spectrum], index: int, colour: Any) -> None:
    """The mean over replicas, and the range that they take."""
    values_SR = np.stack([spectrum.svals_RD[:, index] for spectrum in spectra])
    axes.plot(steps, values_SR.mean(axis=1), color=colour, label=f"{index + 1}")
    axes.fill_between(steps, values_SR.min(axis=1), values_SR.max(axis=1), color=colour, alpha=0.2, linewidth=0)
    axes.set_yscale("log")


def draw_echoes(axes: Axes, steps: list[int], spectra: list[Spectrum], index: int, colour: Any) -> None:
    """The estimate, one standard error to both sides."""
    echo_S = np.array([spectrum.echo_D[index] for spectrum in spectra])
    error_S = np.array([spectrum.standard_error_D[index] for spectrum in spectra])
    axes.plot(steps, echo_S, color=colour, label=f"{index + 1}")
    axes.fill_between(steps, echo_S - error_S, echo_S + error_S, color=colour, alpha=0.2, linewidth=0)
    axes.set_ylim(-0.5, 1.05)


def draw(by_parameter: dict[str, list[Spectrum]], title: str, path: Path, draw_one: Callable[..., None]) -> None:
    """Draw one panel for each parameter and one line for each direction."""
    columns = min(6, len(by_parameter))
    rows = -(-len(by_parameter) // columns)
    figure, panels = pyplot.subplots(
        rows, columns, figsize=(2.6 * columns, 2.3 * rows + 0.8), sharex=True, sharey=True, squeeze=False
    )
    colours = matplotlib.colormaps["viridis"]
    for panel in panels.flat[len(by_parameter) :]:
        panel.set_visible(False)
    for panel, (parameter, spectra) in zip(panels.flat, by_parameter.items(), strict=False):
        steps = [spectrum.step for spectrum in spectra]
        drawn = [direction for direction in DIRECTIONS if direction <= len(spectra[0].echo_D)]
        for place, direction in enumerate(drawn):
            draw_one(panel, steps, spectra, direction - 1, colours(place / len(DIRECTIONS)))
        panel.set_title(parameter.removeprefix("layers.layers."), fontsize=9)
        panel.set_xlabel("step", fontsize=8)
        panel.xaxis.get_major_locator().set_params(integer=True)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, title="direction", loc="outside right upper")
    figure.suptitle(title)
    figure.set_layout_engine("constrained")
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def main() -> None:
    """Draw both figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--to", type=Path, help="where the figures go; the folder of the spectra unless told")
    options = parser.parse_args()
    by_parameter = read_folder(options.folder) if options.folder.is_dir() else {}
    if not by_parameter:
        sys.exit(f"error: no spectra of whole steps in {options.folder}")
    matplotlib.use("svg")
    # The same figures have the same bytes.
    matplotlib.rcParams["svg.hashsalt"] = "spectra"
    to = options.to or options.folder
    replicas = next(iter(by_parameter.values()))[0].replicas
    of = f"of {replicas} replicas' gradients"
    draw(by_parameter, f"Singular values {of}: mean and range", to / "singular-values.svg", draw_singular_values)
    draw(by_parameter, f"Spectral echoes {of}, one standard error", to / "echoes.svg", draw_echoes)
    print(f"wrote {to / 'singular-values.svg'} and {to / 'echoes.svg'}")


if __name__ == "__main__":
    main()
