"""What holds for lessons and tests that pytest runs, and for the kernels that they start."""

import os
import tempfile
from pathlib import Path

# No bars of progress: how long a machine takes is no result.
os.environ.setdefault("TQDM_DISABLE", "1")

# Without a folder of its own matplotlib would warn in the first cell of every lesson.
if "MPLCONFIGDIR" not in os.environ and not os.access(Path.home(), os.W_OK):
    os.environ["MPLCONFIGDIR"] = tempfile.mkdtemp(prefix="matplotlib-")
