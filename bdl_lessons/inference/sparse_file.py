"""A pruned network as one file: non-zero weights, the gaps between their positions, the biases.

The file is a NumPy archive without pickled objects. ``layout`` is JSON: one entry for each module,
in order. Positions are stored as differences to the position before, in the smallest unsigned type
that holds the largest of them.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from bdl_lessons.inference.prune import PrunedNetwork, SparseLayer

VERSION = 2
_ACTIVATIONS = (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.Softplus, nn.ELU, nn.GELU, nn.SiLU)
_BY_NAME = {kind.__name__: kind for kind in (*_ACTIVATIONS, nn.Flatten, nn.MaxPool2d)}


def save(network: PrunedNetwork, path: str | os.PathLike) -> int:
    """Write ``network`` to ``path``, all or nothing, and return the number of bytes on disk.

    Raises:
        TypeError: if it is no pruned network, or has a module that the file cannot describe.
    """
    if not isinstance(network, PrunedNetwork):
        raise TypeError(
            f"network must be a PrunedNetwork: compress() makes one; got {type(network).__name__}"
        )
    path, layout, arrays = Path(path), [], {}
    for number, module in enumerate(network):
        layout.append(_describe(module))
        if isinstance(module, SparseLayer):
            arrays |= {f"{number}.{name}": array for name, array in _arrays(module).items()}
    header = np.frombuffer(json.dumps({"version": VERSION, "layout": layout}).encode(), np.uint8)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.unfinished")
    try:
        with unfinished.open("wb") as file:
            np.savez_compressed(file, header=header, **arrays)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path.stat().st_size


def load(path: str | os.PathLike) -> PrunedNetwork:
    """The network that :func:`save` wrote, on the CPU.

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
    except (
        ValueError,
        KeyError,
        IndexError,
        TypeError,
        AttributeError,
        EOFError,
        OSError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
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
    values = torch.from_numpy(stored[f"{number}.values"])
    index = torch.from_numpy(stored[f"{number}.gaps"].astype(np.int64).cumsum())
    bias = torch.from_numpy(stored[f"{number}.bias"]) if entry["bias"] else None
    _check(values, index, bias, entry["shape"])
    return SparseLayer(values, index, entry["shape"], bias, entry["stride"], entry["padding"])


def _check(values: Tensor, index: Tensor, bias: Tensor | None, shape: list[int]) -> None:
    n_weights = int(np.prod(shape))
    if len(values) != len(index) or (len(index) and not 0 <= index[-1] < n_weights):
        raise ValueError("positions and weights do not fit the layer")
    if bias is not None and len(bias) != shape[0]:
        raise ValueError(f"{len(bias)} biases for {shape[0]} outputs")
    if not values.isfinite().all():
        raise ValueError("a weight is NaN or infinite")
