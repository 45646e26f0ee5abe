"""What of a machine may change results."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch


def gpu_facts(on: torch.device) -> dict[str, Any]:
    """What of a CUDA device may change results: its driver, libraries and TF32; else nothing."""
    if on.type != "cuda":
        return {}
    driver = Path("/proc/driver/nvidia/version")
    found = re.search(r"Module\D*([\d.]+)", driver.read_text()) if driver.exists() else None
    return {
        "driver": found[1] if found else "unknown",
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "tf32": {
            "products": torch.backends.cuda.matmul.allow_tf32,
            "convolutions": torch.backends.cudnn.allow_tf32,
        },
    }
