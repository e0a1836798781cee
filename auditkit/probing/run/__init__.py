"""Run probes as a user asked for them: options, targets, the source, whose code a finding is in."""
