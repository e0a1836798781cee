"""A sweep: many checkouts, revisions, torch versions and devices as jobs on an engine."""
