"""Find the gradient collectors of a checkout by reading its source; nothing of it is imported.

In reading order: `gradient_flow` (what one function does with gradients), `collector_calls` (functions that do it
through one another), `answers` (what one returns), `candidates`, `blocks`, `search`.
"""
