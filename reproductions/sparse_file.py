"""A pruned network as one file: non-zero weights, the gaps between their positions, the biases.

The file is a NumPy archive without pickled objects. ``layout`` is JSON: one entry for each module,
in order. Positions are stored as differences to the position before, in the smallest unsigned type
that holds the largest of them.
"""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import numpy as np
import torch
from torch import nn

from bdl_lessons.core.files import replacing
from bdl_lessons.inference import PrunedNetwork
from bdl_lessons.inference.prune import SparseLayer

VERSION = 2
_ACTIVATIONS = (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.Softplus, nn.ELU, nn.GELU, nn.SiLU)
_BY_NAME = {kind.__name__: kind for kind in (*_ACTIVATIONS, nn.Flatten, nn.MaxPool2d)}


def save_sparse(network: PrunedNetwork, path: str | os.PathLike) -> int:
    """Write ``network`` to ``path``, all or nothing, and return the number of bytes on disk.

    Raises:
        TypeError: if it is no pruned network, or has a module that the file cannot describe.
    """
    content = sparse_bytes(network)
    with replacing(Path(path)) as file:
        file.write(content)
    return len(content)


def sparse_bytes(network: PrunedNetwork) -> bytes:
    """What :func:`save_sparse` writes; arguments and errors as there."""
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


def load_sparse(path: str | os.PathLike) -> PrunedNetwork:
    """The network that :func:`save_sparse` wrote, on the CPU.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is truncated, damaged or something else; the message names it.
    """
    path = Path(path)
    try:
        with np.load(path, allow_pickle=False) as stored:
            header = json.loads(bytes(stored["header"]))
            if header["version"] != VERSION:
                raise ValueError(f"it has version {header['version']}, known is {VERSION}")
            modules = [
                _rebuild(entry, stored, number) for number, entry in enumerate(header["layout"])
            ]
    except FileNotFoundError:
        raise
    except Exception as error:  # NumPy, zipfile, zlib and json have many for a damaged file
        raise ValueError(
            f"{path.name} is not a complete file of a pruned network ({error}); save it again"
        ) from error
    return PrunedNetwork(*modules)


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


def _rebuild(entry: dict, stored, number: int) -> nn.Module:
    if entry["kind"] != "sparse":
        return _BY_NAME[entry.pop("kind")](**entry)
    bias = torch.from_numpy(stored[f"{number}.bias"]) if entry["bias"] else None
    return SparseLayer(
        torch.from_numpy(stored[f"{number}.values"]),
        torch.from_numpy(stored[f"{number}.gaps"].astype(np.int64).cumsum()),
        entry["shape"],
        bias,
        entry["stride"],
        entry["padding"],
    )
