"""auditkit.collectors with the Triton kernels, in Triton's interpreter, for what a GPU would measure with them."""

import os

os.environ["TRITON_INTERPRET"] = "1"  # read when triton is first imported

from auditkit.collectors import PendingGradientStats, pending
from auditkit.collectors import collect_gradients as collect_with
from auditkit.collectors.triton_pass import TRITON_DTYPES

pending._reads_now = lambda key: False
pending.runs_on_triton = lambda tensors, is_required=False: tensors[0].dtype in TRITON_DTYPES


def collect_gradients(parameters) -> PendingGradientStats:
    return collect_with(parameters, backend="triton")
