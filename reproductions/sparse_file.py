"""A pruned network as one file: non-zero weights, the gaps between their positions, the biases.

The file is a NumPy archive without pickled objects. ``layout`` is JSON: one entry for each module,
in order. Positions are stored as differences to the position before, in the smallest unsigned type
that holds the largest of them.
"""

from __future__ import annotations

import io
import json

import numpy as np
from torch import nn

from bdl_lessons.inference import PrunedNetwork
from bdl_lessons.inference.prune import SparseLayer

VERSION = 2
_ACTIVATIONS = (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.Softplus, nn.ELU, nn.GELU, nn.SiLU)
_BY_NAME = {kind.__name__: kind for kind in (*_ACTIVATIONS, nn.Flatten, nn.MaxPool2d)}


def sparse_bytes(network: PrunedNetwork) -> bytes:
    """The file of ``network``, whose length is the memory that sparse storage takes.

    Raises:
        TypeError: if it is no pruned network, or has a module that the file cannot describe.
    """
    if not isinstance(network, PrunedNetwork):
        raise TypeError(
            f"network must be a PrunedNetwork: to_sparse() makes one; got {type(network).__name__}"
        )
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
    if type(module) in _BY_NAME.values():
        options = getattr(module, "__constants__", ())  # all of them arguments of the constructor
        return {"kind": type(module).__name__} | {name: getattr(module, name) for name in options}
    known = ", ".join(_BY_NAME)
    raise TypeError(f"the file cannot describe {type(module).__name__}; it knows {known}")


def _arrays(layer: SparseLayer) -> dict[str, np.ndarray]:
    index = layer.index.cpu().numpy()
    gaps = np.diff(index, prepend=0)
    kind = np.min_scalar_type(gaps.max(initial=0))
    arrays = {"values": layer.values.cpu().numpy(), "gaps": gaps.astype(kind)}
    return arrays if layer.bias is None else arrays | {"bias": layer.bias.cpu().numpy()}
