"""The gradients that targets are called with: patterns, known norms, matrices, shards, and the forms of each."""
