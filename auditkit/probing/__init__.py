"""Find targets in a checkout, run probes on them in its interpreter, and judge what the probes measured."""
