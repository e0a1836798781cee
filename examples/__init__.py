"""Programs that use auditkit.collectors."""
