"""Leaves an orphan behind and ends the process, all while it is imported."""

import os

from norms import orphan

orphan(os.path.join(os.path.dirname(os.environ["TMPDIR"]), "orphan-of-import"))
os._exit(1)
