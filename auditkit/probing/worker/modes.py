"""The base of our dispatch modes: one that does not import torch._dynamo at its first operator."""

from torch.utils._python_dispatch import TorchDispatchMode


class OperatorMode(TorchDispatchMode):
    """A dispatch mode whose handler torch does not wrap in `_disable_dynamo`.

    The wrapper imports torch._dynamo, 1 s of processor time in every worker; nothing of ours is compiled.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
