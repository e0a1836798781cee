"""Training steps in the shapes that strangers write them: what each is handed has to be found out."""

import copy
import os

import torch
from torch import nn
from torch.nn import functional


def train_for_cuda(model, train_loader, optimizer, device, epoch, args):
    """Written for a GPU, with a scaler of its own and a configuration."""
    scaler = torch.cuda.amp.GradScaler(enabled=True)
    model.train()
    optimizer.zero_grad()
    for step, (images, target) in enumerate(train_loader):
        images = images.cuda(non_blocking=True)
        target = target.to("cuda:0")
        with torch.cuda.amp.autocast(enabled=args.use_amp):
            loss = nn.CrossEntropyLoss()(model(images), target) / args.gradient_accumulation_steps
        scaler.scale(loss).backward()
        if (step + 1) % args.gradient_accumulation_steps == 0:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), args.max_grad_norm)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        torch.cuda.synchronize()
        if step % args.log_interval == 0:
            print(f"epoch {epoch} loss {loss.item()}")


def train_one_batch(model, batch, optimizer, scheduler):
    """One mapping at a time, the loss from the model."""
    outputs = model(**batch)
    outputs.loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
    return outputs.loss.detach()


def train_by_iterator(model, optimizer, data_iterator, num_steps, micro_batches):
    """The step asks for its micro-batches; the model returns scores and loss."""
    for _ in range(num_steps):
        optimizer.zero_grad(set_to_none=True)
        for _ in range(micro_batches):
            inputs, targets = next(data_iterator)
            _, loss = model(inputs, targets)
            (loss / micro_batches).backward()
        optimizer.step()


def train_with_its_own_groups(model, optimizer, loader, accumulation_steps):
    """A setting of each group, of which one is torch's schedule's and one another optimizer's; a state beside a batch."""
    x, y = next(loader)
    for _ in range(4):
        for _ in range(accumulation_steps):
            (functional.cross_entropy(model(x), y) / accumulation_steps).backward()
            x, y = next(loader)
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"] * (0.5 if group["kind"] == "muon" else 1.0)
        optimizer.step()
        optimizer.zero_grad()


def train_on_values(net, opt, x, y, loss_fn):
    """Regression of one batch."""
    opt.zero_grad()
    loss = loss_fn(net(x), y)
    loss.backward()
    opt.step()
    return loss


def train_every_fourth(model, optimizer, loader):
    """Four micro-batches a step, as the code has it."""
    optimizer.zero_grad()
    for index, (x, y) in enumerate(loader):
        (functional.cross_entropy(model(x), y) / 4).backward()
        if index % 4 == 3:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()


def train_every_fourth_undivided(model, optimizer, loader):
    """The same without the division."""
    optimizer.zero_grad()
    for index, (x, y) in enumerate(loader):
        functional.cross_entropy(model(x), y).backward()
        if index % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()


def train_yielding(model, optimizer, loader):
    """A generator: nothing happens before it is asked."""
    for x, y in loader:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        yield loss.detach()


def train_without_end(model, optimizer, loader):
    """Epoch after epoch."""
    while True:
        for x, y in loader:
            optimizer.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()


def train_by_closure(model, loader):
    """LBFGS goes backward itself."""
    optimizer = torch.optim.LBFGS([p for p in model.parameters() if p.requires_grad], max_iter=2)
    for x, y in loader:

        def closure():
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            return loss

        optimizer.step(closure)


def train_with_closure(model, optimizer, loader, max_norm):
    """What a step is made of comes from its closure, which also clips."""
    for x, y in loader:

        def closure(x=x, y=y):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            return loss

        optimizer.step(closure)


def train_inside_backward(model, loader):
    """Each parameter has an optimizer, which steps as soon as there is a gradient."""
    optimizers = {each: torch.optim.SGD([each], lr=1e-3) for each in model.parameters() if each.requires_grad}

    def step(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in optimizers:
        parameter.register_post_accumulate_grad_hook(step)
    for x, y in loader:
        functional.cross_entropy(model(x), y).backward()


def train_by_halves(model, loader):
    """Two optimizers with a part each, and a schedule."""
    trained = [each for each in model.parameters() if each.requires_grad]
    matrices = torch.optim.SGD([each for each in trained if each.dim() > 1], lr=1e-3)
    others = torch.optim.AdamW([each for each in trained if each.dim() <= 1], lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(matrices, 10)
    for x, y in loader:
        functional.cross_entropy(model(x), y).backward()
        for each in (matrices, others, schedule):
            each.step()
        matrices.zero_grad()
        others.zero_grad()


def train_more_later(model, loader):
    """A group of parameters joins after the first step."""
    optimizer = torch.optim.SGD(model.linear.parameters(), lr=1e-3)
    for index, (x, y) in enumerate(loader):
        if index == 1:
            optimizer.add_param_group({"params": list(model.embedding.parameters())})
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def train_with_hooks(model, optimizer, loader, max_norm):
    """Each gradient is limited as it comes."""
    handles = [each.register_hook(lambda grad: grad.clamp(-1, 1)) for each in model.parameters() if each.requires_grad]
    for x, y in loader:
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
    for handle in handles:
        handle.remove()


def train_stepping_twice(model, optimizer, loader):
    """The second step is made of the same gradients."""
    for x, y in loader:
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.step()


def train_on_a_stream(model, optimizer, loader):
    """Needs what no host has."""
    with torch.cuda.stream(torch.cuda.Stream()):
        train_with_hooks(model, optimizer, loader, 1.0)


def train_beside_a_child(model, optimizer, loader):
    """A process of its own, which ends by itself."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    train_with_hooks(model, optimizer, loader, 1.0)
    os.waitpid(child, 0)


def train_a_copy(model, optimizer, loader):
    """The optimizer has the parameters of another model than the one that is trained."""
    model = copy.deepcopy(model)
    for x, y in loader:
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def train_twice_held(model, loader):
    """One weight in two groups, each of which has an optimizer."""
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizers = [torch.optim.SGD(trained, lr=1e-3), torch.optim.SGD(trained[:1], lr=1e-2)]
    for x, y in loader:
        functional.cross_entropy(model(x), y).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()


class MixedTrainer:
    """The factor of the scaler is clipped, where mixed precision is on."""

    def __init__(self, model, optimizer, config):
        self.model, self.optimizer, self.config = model, optimizer, config
        self.scaler = torch.amp.GradScaler()

    def train_batch(self, inputs, targets):
        with torch.autocast("cpu", torch.float16, enabled=self.config.use_amp):
            loss = functional.cross_entropy(self.model(inputs), targets)
        self.optimizer.zero_grad()
        if self.config.use_amp:
            self.scaler.scale(loss).backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.max_grad_norm)
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.max_grad_norm)
            self.optimizer.step()


def train_unscaled_twice(model, optimizer, loader, scaler):
    """The factor is divided out by hand, and by the scaler again."""
    for x, y in loader:
        optimizer.zero_grad()
        scaler.scale(functional.cross_entropy(model(x), y)).backward()
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad /= scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()


def train_keeping_nan(model, optimizer, loader):
    """A step that is left out leaves its gradients to the next one."""
    for x, y in loader:
        functional.cross_entropy(model(x), y).backward()
        if all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None):
            optimizer.step()
            optimizer.zero_grad()


def train_until_nan(model, optimizer, loader):
    """It stops at the first NaN."""
    for x, y in loader:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        if torch.isnan(loss):
            raise ValueError("loss is NaN")
        loss.backward()
        optimizer.step()


def clip_before_backward(model, optimizer, loader, grad_clip):
    """There is nothing yet to clip."""
    for x, y in loader:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
        loss.backward()
        optimizer.step()


def clip_by_value(model, optimizer, loader, clip_value):
    """Every element by itself."""
    for x, y in loader:
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        nn.utils.clip_grad_value_(model.parameters(), clip_value)
        optimizer.step()


def clip_the_head(model, optimizer, loader, max_norm):
    """Other parameters than those that are trained."""
    for x, y in (loader[index] for index in range(len(loader))):
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.linear.parameters(), max_norm)
        optimizer.step()


def unfreeze(model, optimizer, loader):
    """Whatever was frozen trains again."""
    for parameter in model.parameters():
        parameter.requires_grad = True
    for x, y in loader:
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def swallow(model, optimizer, loader):
    """Its errors are nobody's business, and no step is ever made."""
    for x, y in loader:
        try:
            model(x).no_such_loss(y).backward()
            optimizer.step()
        except Exception:
            continue


class LateTrainer:
    """A loop whose object is set up from files: its attributes alone say what they are."""

    def __init__(self, path):
        raise FileNotFoundError(path)

    def train_epoch(self):
        self.model.train()
        for inputs, targets in self.train_loader:
            loss = self.compute_loss(inputs, targets)
            self.optimizer.zero_grad()
            loss.backward()
            if self.args.clip_grad_norm > 0:
                nn.utils.clip_grad_norm_(self.model.parameters(), self.args.clip_grad_norm)
            self.optimizer.step()
            self.lr_scheduler.step()

    def compute_loss(self, inputs, targets):
        return self.criterion(self.model(inputs), targets)


class Recipe:
    """What trains is set up after the constructor; the loss shifts the labels, and saving would write."""

    def __init__(self, cfg):
        self.total_epochs, self.max_steps_per_epoch = cfg.epochs, cfg.max_steps_per_epoch
        self._gradient_accumulation_steps = cfg.gradient_accumulation_steps

    def setup(self, cfg):
        self._compile = cfg.compile
        self._model, self._optimizer, self._loss_fn = cfg.model, cfg.optimizer, nn.CrossEntropyLoss()
        self._sampler, self._dataloader = cfg.sampler, cfg.dataloader
        self._profiler = cfg.profiler
        self.ignore_labels_cache = torch.full((cfg.batch_size, 1), self._loss_fn.ignore_index)

    def _loss_step(self, batch):
        labels = torch.hstack((batch["labels"][..., 1:], self.ignore_labels_cache[: len(batch["labels"])]))
        return self._loss_fn(self._model(batch["tokens"]).reshape(-1, 11), labels.reshape(-1))

    def save_checkpoint(self):
        """Nobody has set it up."""
        self._checkpointer.save(self._model)

    def train(self):
        self._optimizer.zero_grad()
        self._profiler.start()
        for epoch in range(self.total_epochs):
            self._sampler.set_epoch(epoch)
            num_tokens = 0
            for index, batch in enumerate(self._dataloader):
                if index // self._gradient_accumulation_steps == self.max_steps_per_epoch:
                    break
                number = (batch["labels"] != self._loss_fn.ignore_index).sum()
                num_tokens += number
                (self._loss_step(batch) * number).backward()
                if (index + 1) % self._gradient_accumulation_steps == 0:
                    for parameter in self._model.parameters():
                        if parameter.grad is not None:
                            parameter.grad *= 1 / num_tokens
                    self._optimizer.step()
                    self._optimizer.zero_grad(set_to_none=True)
                    num_tokens = 0
            self.save_checkpoint()


class MeanRecipe(Recipe):
    """The mean of the micro-batches' means."""

    def train(self):
        self._optimizer.zero_grad()
        for index, batch in enumerate(self._dataloader):
            (self._loss_step(batch) / self._gradient_accumulation_steps).backward()
            if (index + 1) % self._gradient_accumulation_steps == 0:
                self._optimizer.step()
                self._optimizer.zero_grad()
        self.save_checkpoint()


def train_on_pixels(model, optimizer, train_loader):
    """Every pixel has a class, and the model is asked what it is made for."""
    for batch in train_loader:
        images, masks = batch["image"], batch["mask"]
        assert images.shape[1] == model.n_channels
        optimizer.zero_grad()
        scores = model(images).softmax(dim=1)
        whole = functional.one_hot(masks, model.n_classes).permute(0, 3, 1, 2)
        (functional.cross_entropy(scores, masks) + (scores * whole).sum((2, 3)).mean()).backward()
        optimizer.step()


class OptionalScaler:
    """Mixed precision is off unless somebody asks for it; then the factor of the scaler is clipped."""

    def __init__(self, model, optimizer, use_amp=False):
        self.model, self.optimizer = model, optimizer
        self.scaler = torch.amp.GradScaler("cuda", enabled=use_amp)

    def train_batch(self, inputs, targets):
        self.optimizer.zero_grad()
        self.scaler.scale(functional.cross_entropy(self.model(inputs), targets)).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.unscale_(self.optimizer)
        self.scaler.step(self.optimizer)
        self.scaler.update()


def train_taking_labels(model, optimizer, loader, num_epochs, accumulation_steps):
    """Each batch loses its labels, as only a loader's own batches may, and an epoch's last group is dropped."""
    for _ in range(num_epochs):
        optimizer.zero_grad()
        for index, batch in enumerate(loader):
            labels = batch.pop("labels")
            (functional.cross_entropy(model(batch.pop("input_ids")), labels) / accumulation_steps).backward()
            if (index + 1) % accumulation_steps == 0:
                optimizer.step()
                optimizer.zero_grad()


SCALER = torch.amp.GradScaler("cpu", init_scale=1.0)


def train_scaled_by_one(model, optimizer, loader):
    """The factor of the module's scaler is 1 at first, and is clipped once it grows."""
    for x, y in loader:
        optimizer.zero_grad()
        SCALER.scale(functional.cross_entropy(model(x), y)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        SCALER.unscale_(optimizer)
        SCALER.step(optimizer)
        SCALER.update()


class LossScaler:
    """A part of a step that is handed the loss; whoever computes it zeroes the gradients."""

    unscales = True

    def __init__(self):
        self._scaler = torch.amp.GradScaler("cpu")

    def __call__(self, loss, optimizer, clip_grad=None, parameters=None):
        self._scaler.scale(loss).backward()
        if self.unscales:
            self._scaler.unscale_(optimizer)
        if clip_grad is not None:
            torch.nn.utils.clip_grad_norm_(parameters, clip_grad)
        self._scaler.step(optimizer)
        self._scaler.update()


class HastyScaler(LossScaler):
    unscales = False


def clip_with_a_scaler_alone(
    model, criterion: torch.nn.Module, loader, optimizer, loss_scaler, max_norm=0, first=None, num_steps=None, amp=False
):
    """The options that are None are numbers that the loop needs; without `amp` the limit acts on nothing."""
    for index, (inputs, targets) in enumerate(loader):
        if index >= num_steps:
            continue
        loss = criterion(model(inputs), targets)
        optimizer.zero_grad()
        if amp:
            loss_scaler(loss, optimizer, clip_grad=max_norm, parameters=model.parameters())
        else:
            loss.backward()
            optimizer.step()
