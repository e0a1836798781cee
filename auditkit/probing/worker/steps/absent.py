"""What a loop uses beside its training and nobody has here: progress bars, meters, and names that its script makes."""

import re
import sys
from typing import Any, Iterable, Iterator

from ..base.namespaces import replace_held
from ..feeding.stub import Quiet
from ..process import placeholders

_BARS = re.compile(r"(tqdm|rich\.progress|progressbar|alive_progress|fastprogress)\b.*|.*\.(tqdm|trange|track)")
_METERS = re.compile(r"torchmetrics\..*|.*\.\w*(Meter|Averag\w*|Metric|SmoothedValue)\w*")
_LOGS = re.compile(r"(wandb|loguru|mlflow|comet_ml|tensorboardX)\b.*|.*\.(SummaryWriter|logger)")


class Bar(Quiet):
    """A progress bar that shows nothing and hands its items on."""

    def __init__(self, items: Iterable[Any] = (), *_: Any, **__: Any) -> None:
        super().__init__({})
        self.__dict__["_items"] = items

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_: Any) -> None:
        pass


class Meter(Quiet):
    """A meter that measures nothing."""

    val = avg = sum = count = global_avg = value = 0.0

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__({})


def stand_in(path: str) -> bool:
    """Let something harmless stand for a placeholder that a loop has touched; False where nothing is known for it."""
    kinds = ((_BARS, Bar), (_METERS, Meter), (_LOGS, Quiet({})))
    found = next((kind for pattern, kind in kinds if pattern.fullmatch(path)), None)
    if found is None:
        return False
    place, _, name = path.rpartition(".")
    parent = sys.modules.get(place)
    if isinstance(parent, placeholders.Placeholder):
        vars(parent)[name] = found
    replace_held(placeholders.Placeholder, lambda value: found if vars(value)["_path"] == path else value)
    placeholders.forget()
    return True
