"""Spectra of replica gradients, over the ranks of a training run: defective functions and their sound counterparts."""
