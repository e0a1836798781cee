"""Blocks: runs of statements that auditkit checks like a collector, where there is no function to call."""
