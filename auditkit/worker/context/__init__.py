"""What a probe receives: gradients, the target as calls, their cost, the place of a defect, spectra and ranks."""
