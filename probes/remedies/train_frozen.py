from torch.nn import functional


def train_frozen(model, optimizer, batches, frozen=("embedding",)):
    for name, parameter in model.named_parameters():
        if name.startswith(frozen):
            parameter.requires_grad_(False)
            parameter.grad = None  # a tensor of zeros would still be decayed
    for inputs, targets in batches:
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
