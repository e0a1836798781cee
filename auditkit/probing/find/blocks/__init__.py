"""Blocks: statements that auditkit checks like a collector, where there is no function to call."""
