"""What a probe is handed: gradients, the target as calls, what a call costs, where it goes wrong, spectra, ranks."""
