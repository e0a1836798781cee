"""What the projects of the cases do elsewhere: models in 16 bits, and an embedding with sparse gradients."""

import torch


def narrowed(model, dtype):
    return model.half() if dtype == "float16" else model.bfloat16()


def sparse_embedding(rows, columns):
    return torch.nn.Embedding(rows, columns, sparse=True)
