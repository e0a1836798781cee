"""Find, read and write auditkit.yaml."""
