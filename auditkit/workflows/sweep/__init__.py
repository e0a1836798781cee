"""A sweep: many checkouts, revisions, torch versions and devices, each of them a job on an engine that is there."""
