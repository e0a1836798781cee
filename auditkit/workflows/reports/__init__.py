"""The documents that people send around, from runs and tickets."""
