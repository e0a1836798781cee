"""Stubs of progress bars, meters and loggers that a training step uses and that are not installed."""

import re
import sys
from typing import Any, Iterable, Iterator

from ..base.namespaces import replace_held
from ..feed.stub import Quiet
from ..serve import placeholders

_SILENT = re.compile(
    r"(tqdm|rich\.progress|progressbar|alive_progress|fastprogress|wandb|loguru|mlflow|comet_ml|tensorboardX)\b.*|"
    r"torchmetrics\..*|.*\.(tqdm|trange|track|SummaryWriter|logger|\w*(Meter|Averag\w*|Metric|SmoothedValue)\w*)"
)


class Silent(Quiet):
    """An object whose methods do nothing and whose values are 0. A call returns another, which passes its items on."""

    val = avg = sum = count = global_avg = value = 0.0

    def __init__(self, items: Any = ()) -> None:
        super().__init__({})
        self.__dict__["_items"] = range(items) if isinstance(items, int) else items

    def __call__(self, items: Any = (), *_: Any, **__: Any) -> "Silent":
        return Silent(items if isinstance(items, (int, Iterable)) else ())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __enter__(self) -> "Silent":
        return self

    def __exit__(self, *_: Any) -> None:
        pass


def put_stub(path: str) -> bool:
    """Put a stub in the place of a placeholder that a loop touched; return False if none is known for it."""
    if not _SILENT.fullmatch(path):
        return False
    place, _, name = path.rpartition(".")
    parent = sys.modules.get(place)
    if isinstance(parent, placeholders.Placeholder):
        vars(parent)[name] = Silent()
    replace_held(placeholders.Placeholder, lambda value: Silent() if vars(value)["_path"] == path else value)
    placeholders.forget()
    return True
