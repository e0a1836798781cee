"""The same probes on two versions of the code: verify, fixes and compare."""
