"""Where the devices of `asked_at_import` come from."""

import torch

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
