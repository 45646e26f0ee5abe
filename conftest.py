"""Lessons that pytest replays show no bars of progress: how long a machine takes is no result."""

import os

os.environ.setdefault("TQDM_DISABLE", "1")
