"""Settings that hold for every test; kernels started by tests inherit the environment."""

import os

import pytest
import torch
from hypothesis import settings

# The same examples on every machine, however slow it is.
settings.register_profile("course", deadline=None, derandomize=True)
settings.load_profile("course")
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
os.environ["MPLBACKEND"] = "agg"


@pytest.fixture(autouse=True)
def one_start():
    """PyTorch's own start values are the same for a test, whichever tests ran before it."""
    torch.manual_seed(0)
