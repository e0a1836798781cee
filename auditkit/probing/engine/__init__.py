"""The host's side of a measurement: start workers, read their messages, judge results."""
