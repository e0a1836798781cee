"""A pretended CUDA device: real values on the CPU behind a tensor that says it is elsewhere."""
