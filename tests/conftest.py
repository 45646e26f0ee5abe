"""Settings that hold for every test; kernels started by tests inherit the environment."""

import os

import pytest
import torch

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
os.environ["MPLBACKEND"] = "agg"


@pytest.fixture(autouse=True)
def one_start():
    """PyTorch's own start values are the same for a test, whichever tests ran before it."""
    torch.manual_seed(0)
