"""Processes of the worker: load modules, fork a child for each job, send messages."""
