"""A pruned network as one file: non-zero weights, the gaps between their positions, the biases.

The file is a NumPy archive without pickled objects. ``layout`` in its header is JSON: one entry for
each module, in order. Positions are stored as differences to the position before, in the smallest
unsigned type that holds the largest of them.
"""

from __future__ import annotations

import io
import json

import numpy as np
from torch import nn

from bdl_lessons.inference import PrunedNetwork
from bdl_lessons.inference.prune import SparseLayer

VERSION = 2


def sparse_file(network: PrunedNetwork) -> bytes:
    """The content of the file; its length is what a pruned network takes on disk.

    Args:
        network: what :func:`~bdl_lessons.inference.to_sparse` returns.
    """
    layout, arrays = [], {}
    for number, module in enumerate(network):
        layout.append(_describe(module))
        if isinstance(module, SparseLayer):
            arrays |= {f"{number}.{name}": array for name, array in _arrays(module).items()}
    header = np.frombuffer(json.dumps({"version": VERSION, "layout": layout}).encode(), np.uint8)
    file = io.BytesIO()
    np.savez_compressed(file, header=header, **arrays)
    return file.getvalue()


def _describe(module: nn.Module) -> dict:
    if isinstance(module, SparseLayer):
        return {
            "kind": "sparse",
            "shape": module.shape,
            "stride": module.stride,
            "padding": module.padding,
            "bias": module.bias is not None,
        }
    options = getattr(module, "__constants__", ())  # all of them arguments of the constructor
    return {"kind": type(module).__name__} | {name: getattr(module, name) for name in options}


def _arrays(layer: SparseLayer) -> dict[str, np.ndarray]:
    gaps = np.diff(layer.index.cpu().numpy(), prepend=0)
    arrays = {
        "values": layer.values.cpu().numpy(),
        "gaps": gaps.astype(np.min_scalar_type(gaps.max(initial=0))),
    }
    return arrays if layer.bias is None else arrays | {"bias": layer.bias.cpu().numpy()}
