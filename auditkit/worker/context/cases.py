"""The gradients that probes pass to targets, on the device on which the target runs."""

import itertools
from typing import Any, List, Sequence, Tuple

import torch

from ..gradients import gradients, known_norms, matrices
from ..gradients.forms import WideBatch
from ..simulated.device import on_device
from ..simulated.tensor import pretend_device, to_host, to_simulated


class Cases:
    """Gradients of many kinds for one device (`cpu`, `cuda` or `simulated`)."""

    layouts = tuple(gradients.LAYOUTS)
    """The names of the memory layouts that `laid_out` knows, commonest first."""

    def __init__(self, device: str) -> None:
        self.device = device

    def place(self, grads: Sequence[torch.Tensor]) -> List[Any]:
        """Return CPU tensors as gradients of the device."""
        return gradients.placed(grads, self.device)

    def gradients(self, tensors: int, elements: int, dtype: str = "float32", magnitude: float = 1.0) -> List[Any]:
        """Return `tensors` gradients of `elements` elements each, every element `±magnitude`."""
        return self.place(gradients.make_gradients(tensors, elements, dtype, magnitude))

    def known_norm(
        self, pattern: str, tensors: int, elements: int, dtype: str = "float32", magnitude: float = 1.0
    ) -> Tuple[List[Any], float]:
        """Return gradients in a pattern of `known_norms`, and their exact 2-norm."""
        made = known_norms.known_norm(pattern, tensors, elements, dtype, magnitude)
        return self.place(made.grads), made.norm

    def benign(self, scale: float = 1.0, **planted: int) -> List[Any]:
        """Return three small normal gradients times `scale`; `zeros`, `nans`, `infs` plant special values."""
        # Adding 0.0 makes a zero of every -0.0.
        return self.place([grad * scale + 0.0 for grad in gradients.benign(**planted)])

    def planted(self, index: int, special: float, tensors: int = 3, seed: int = 0) -> List[Any]:
        """Return small normal gradients of one to three dimensions, with `special` in the middle of one at `index`."""
        grads = gradients.small_gradients(tensors, seed)
        flat = grads[index].view(-1)
        flat[flat.numel() // 2] = special
        return self.place(grads)

    def special_gradients(
        self, elements: int, fill: float, special: float, special_count: int, dimensions: int = 1
    ) -> List[Any]:
        """Return three float32 gradients of `elements` in all; the last begins with `special_count` of `special`.

        The special values are where `benign` plants them, for results that list every tensor.
        """
        small = [torch.full(tuple(grad.shape), fill) for grad in gradients.benign()[:2]]
        rest = elements - sum(grad.numel() for grad in small)
        return self.place([*small, gradients.with_values(rest, fill, special, special_count, dimensions)])

    def powers_of_two(self) -> List[Any]:
        """Return four gradients of 64 elements of 1, 2, 4 and 8: exact in every dtype, with exact sums of squares.

        They have two, one and three dimensions: a collector that leaves out some of these still reads others.
        """
        shapes = ((1.0, (8, 8)), (2.0, (64,)), (4.0, (4, 4, 4)), (8.0, (8, 8)))
        return self.place([gradients.make_gradients(1, 64, "float32", each)[0].view(shape) for each, shape in shapes])

    def laid_out(self, layout: str, contiguous: bool = False, factor: float = 1.0) -> List[Any]:
        """Return three gradients of small whole numbers, the middle one times `factor` in `layout` or `contiguous`."""
        shape, view = gradients.LAYOUTS[layout]
        first, middle, last = (gradients.whole_numbers(each) for each in ((4, 3), shape, (5,)))
        first, memory_of_grad, last = self.place([first, middle * factor, last])
        with on_device(self.device):
            grad = view(memory_of_grad)
            return [first, gradients.contiguous_copy(grad) if contiguous else grad, last]

    def sparse(self, form: str, special: float = 1.0) -> List[Any]:
        """Return three gradients, the middle one an embedding's: `coalesced`, `uncoalesced` or `dense`.

        `special` is in one of its elements, twice if it is uncoalesced.
        """
        grad = gradients.sparse_rows(form != "uncoalesced", special)
        middle = grad.to_dense() if form == "dense" else grad
        return self.place([gradients.whole_numbers((4, 3)), middle, gradients.whole_numbers((5,))])

    def with_one_more(self, position: int, *extra: torch.Tensor) -> List[Any]:
        """Return three gradients of small whole numbers, and `extra` ones before the one at `position`."""
        grads = [gradients.whole_numbers(shape) for shape in ((4, 3), (5,), (2, 3))]
        return self.place([*grads[:position], *extra, *grads[position:]])

    def with_graph(self) -> Tuple[List[Any], List[Any]]:
        """Return three gradients with a graph, as `create_graph=True` computes them, and their leaves."""
        leaves = [grad.requires_grad_() for grad in self.benign()]
        return [leaf.exp() for leaf in leaves], leaves

    @property
    def device_pairs(self) -> List[Tuple[str, str]]:
        """The pairs of devices for one set of gradients: host and device, and two devices if there are."""
        has_two = self.device == "simulated" or torch.cuda.device_count() > 1
        pairs = [("cpu", "cuda:0"), *([("cuda:0", "cuda:1")] if has_two else [])]
        return pairs if self.device != "cpu" else []

    def on_devices(self, grads: Sequence[Any], devices: Sequence[str]) -> List[Any]:
        """Return the same values, the gradients alternating over these devices."""
        turns = zip((to_host(grad).cpu() for grad in grads), itertools.cycle(devices), strict=False)
        if self.device != "simulated":
            return [host.to(device) for host, device in turns]
        indices = ((host, pretend_device(device)) for host, device in turns)
        return [host if index is None else to_simulated(host, index) for host, index in indices]

    def as_dtypes(self, grads: Sequence[Any], dtypes: Sequence[str]) -> List[Any]:
        """Return the gradients, alternating over these dtypes."""
        turns = itertools.cycle(dtypes)
        with on_device(self.device):
            return [grad.to(gradients.DTYPES[dtype]) for grad, dtype in zip(grads, turns, strict=False)]

    def regrouped(self, grads: Sequence[Any], sizes: Sequence[int]) -> List[Any]:
        """Return the same elements in the same order, as tensors of `sizes` elements."""
        with on_device(self.device):
            return known_norms.regrouped(list(grads), list(sizes))

    def matrices(self, kind: str, *sizes: int, **how: Any) -> List[Any]:
        """Return one (R, N, M) batch: `replicas`, `identical` or `orthogonal`, by `gradients.matrices`."""
        return self.place([getattr(matrices, kind)(*sizes, **how)])

    @staticmethod
    def widened(grads: Sequence[Any]) -> List[Any]:
        """Return a 16-bit batch whose rounded values targets get in float32."""
        return [WideBatch(grads[0])]

    @staticmethod
    def exact_norm(grads: Sequence[Any]) -> float:
        """Return the true 2-norm of all gradients together; None counts as no gradient."""
        return gradients.exact_norm([to_host(grad).cpu() for grad in grads if grad is not None])

    @staticmethod
    def interleaved(grads: Sequence[Any]) -> List[Any]:
        """Return `grads` with a parameter without a gradient before, between and after them."""
        return [None, *[item for grad in grads for item in (grad, None)]]
