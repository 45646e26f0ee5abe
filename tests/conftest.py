"""Settings that hold for every test; kernels started by tests inherit the environment."""

import os

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
os.environ["MPLBACKEND"] = "agg"
