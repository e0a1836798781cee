"""Processes: children that may be lost, the families that they leave, the lines that they send, what they load."""
