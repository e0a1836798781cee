"""auditkit.yaml: found, read and written."""
