import itertools

import torch


class Trainer:
    """Divides by the number of all targets of a step, which `compute_loss` hands the model."""

    def __init__(self, model, args, train_dataset, data_collator):
        self.model, self.args, self.train_dataset, self.data_collator = model, args, train_dataset, data_collator

    def compute_loss(self, model, inputs, num_items_in_batch=None):
        return model(**inputs, num_items_in_batch=num_items_in_batch)["loss"]

    def train(self):
        trained = [each for each in self.model.parameters() if each.requires_grad]
        optimizer = torch.optim.AdamW(trained, self.args.learning_rate, weight_decay=self.args.weight_decay)
        items = iter(self.train_dataset)
        for _ in range(self.args.max_steps):
            window = [self.data_collator([each]) for each in itertools.islice(items, self.args.gradient_accumulation_steps)]
            count = sum((each["labels"] != -100).sum() for each in window)
            for inputs in window:
                self.compute_loss(self.model, inputs, num_items_in_batch=count).backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.args.max_grad_norm)
            optimizer.step()
            optimizer.zero_grad()
