"""LightningModules by themselves: sound ones, and ones with a defect of their own."""

import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    """A small network for pictures."""

    def __init__(self, hidden=16):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 5)
        self.bn = nn.BatchNorm2d(2)
        self.l1 = nn.Linear(2 * 24 * 24, hidden)
        self.l2 = nn.Linear(hidden, 10)

    def forward(self, x):
        return self.l2(torch.relu(self.l1(self.bn(self.conv(x)).flatten(1))))


class Sound(pl.LightningModule):
    """As its documentation shows it."""

    def __init__(self, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.net = Net()

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


class HeadForgotten(Sound):
    """The optimizer has not all that trains."""

    def training_step(self, batch, batch_idx):
        x, y = batch
        return F.cross_entropy(self(x), y)

    def configure_optimizers(self):
        return torch.optim.Adam(list(self.net.conv.parameters()) + list(self.net.l1.parameters()), lr=1e-3)


class Manual(Sound):
    """Never zeroed."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        x, y = batch
        opt = self.optimizers()
        self.manual_backward(F.cross_entropy(self(x), y))
        opt.step()


class ManualSound(Manual):
    """Zeroed by itself."""

    def training_step(self, batch, batch_idx):
        x, y = batch
        opt = self.optimizers()
        opt.zero_grad()
        self.manual_backward(F.cross_entropy(self(x), y))
        opt.step()


class ClipsNothing(Sound):
    """The Trainer is told a limit, and nothing clips."""

    def training_step(self, batch, batch_idx):
        x, y = batch
        return F.cross_entropy(self(x), y)

    def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
        pass


class Reads(Sound):
    """Every loss is read."""

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.last = loss.item()
        return {"loss": loss}


class Tokens(pl.LightningModule):
    """Token numbers from a mapping; a target more or less is its trainer's choice."""

    def __init__(self, vocab_size, dim=8):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, dim)
        self.head = nn.Linear(dim, vocab_size)

    def training_step(self, batch, batch_idx):
        ids, labels = batch["input_ids"], batch["labels"]
        return F.cross_entropy(self.head(self.embed(ids)).view(-1, 11), labels.view(-1))

    def configure_optimizers(self):
        return {"optimizer": torch.optim.AdamW(self.parameters())}


class Sum(Sound):
    """Its loss is a sum: N batches in one step are not made one by dividing by N."""

    def training_step(self, batch):
        x, y = batch
        return F.cross_entropy(self(x), y, reduction="sum")


class TwoOptimizers(Sound):
    """Each part has its own, and the one that waits keeps its gradients out."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def configure_optimizers(self):
        first, second = nn.ModuleList([self.net.conv, self.net.bn, self.net.l1]), self.net.l2
        return [torch.optim.SGD(first.parameters(), 0.1), torch.optim.SGD(second.parameters(), 0.1)], []

    def training_step(self, batch, batch_idx):
        x, y = batch
        for optimizer in self.optimizers():
            self.toggle_optimizer(optimizer)
            optimizer.zero_grad()
            self.manual_backward(F.cross_entropy(self(x), y))
            optimizer.step()
            self.untoggle_optimizer(optimizer)


class TooLarge(Sound):
    """No probe asks it hundreds of times."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(2000, 2000)
