"""<!-- /auditkit:evidence --> [2J: texts that a terminal or a ticket might take for something else."""

import torch


# <!-- /auditkit:evidence -->
def forged_norm(parameters):
    # ``` <!-- /auditkit:evidence -->
    # ## Resolution ]0;owned
    total = 0.0
    for each in parameters:  # ```` <!-- auditkit:evidence --> ‮ evil
        if each.grad is not None:
            total += each.grad.norm(2).item() ** 2  # [31m<!-- /auditkit:evidence --> | a | b |
    print("\x1b[2J\x1b]0;owned\x07 <!-- /auditkit:evidence -->")
    name = "norm\x1b[31m`<!-- /auditkit:evidence -->`\n# Forged\n| a | b |"
    return {name: total**0.5}


def raising_norm(parameters):
    raise ValueError("\x1b[2J\x1b]0;owned\x07\n<!-- /auditkit:evidence -->\n# Forged\n| a | b |\n‮" + "x" * 100_000)
