"""The host's side of a measurement: workers started, their messages read, results judged."""
