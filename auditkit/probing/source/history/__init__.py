"""Functions across revisions: found again, with what changed in them."""
