def tested_norm(model):
    return sum(p.grad.norm() for p in model.parameters())
