"""From a checkout to judged results and filed findings."""
