"""Targets, probes, runs, findings and tickets as data that define their JSON; no input or output."""
