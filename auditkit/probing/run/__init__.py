"""Run probes with the user's options: on targets, on the source; and decide whose code a finding is in."""
