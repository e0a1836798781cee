"""The gradients that targets are asked with: patterns, known norms, matrices, shards, and the forms of each."""
