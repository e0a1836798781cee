"""Train one step and print what both packages say of its gradients."""

import torch
from torch import nn
from unwired.collector import GradientCollector as UnwiredCollector
from wired import GradientCollector


def main() -> None:
    model = nn.Linear(4, 4)
    model(torch.ones(2, 4)).sum().backward()
    for collector in (UnwiredCollector(), GradientCollector()):
        print(collector.collect(model.parameters()))


if __name__ == "__main__":
    main()
