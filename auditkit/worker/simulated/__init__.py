"""The simulated CUDA device: values on the CPU behind a tensor that reports `cuda:0`."""
