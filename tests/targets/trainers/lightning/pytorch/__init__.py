"""Of our own writing: as much of the library as its trainer's fit needs."""

from torch import nn


class LightningModule(nn.Module):
    pass
