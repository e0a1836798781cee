"""The watcher of `auditkit run`, inside the watched program: it records facts and judges nothing.

The carrier loads this package under a private name, so its modules import each other relatively.
"""
