import torch


class Trainer:
    """A step is a closure that the optimizer calls; it clips, and so does the loop, by another limit."""

    def __init__(self, accumulate_grad_batches=1, gradient_clip_val=None, **options):
        self.steps, self.limit = accumulate_grad_batches, gradient_clip_val

    def fit(self, model, batches):
        optimizer = model.configure_optimizers()
        for index, batch in enumerate(batches):
            if (index + 1) % self.steps:
                self._backward(model, batch, index)
            else:
                optimizer.step(lambda batch=batch, index=index: self._backward(model, batch, index, self.limit))
                optimizer.zero_grad()

    def _backward(self, model, batch, index, limit=None):
        loss = model.training_step(batch, index) / self.steps
        loss.backward()
        if limit is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 2 * limit)
        return loss
