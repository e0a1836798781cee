"""Run a ticket's probes on the broken code and on its fix: a commit, a patch or the ticket's recommended code."""
