"""Source probes: questions that reading a checkout answers, without running any of it."""
