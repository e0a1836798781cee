"""Shared by all packages of the worker: lines of the checkout, exceptions, torch's internals."""
