"""Blocks: runs of statements that are asked like a collector, found where no function can be called."""
