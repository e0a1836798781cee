"""How we measure, host side: checkouts, targets, the catalog of probes and the runner."""
