import io
import json

import numpy as np
import pytest
import torch
from torch import nn

from bdl_lessons.experiments.sparse_file import sparse_file
from bdl_lessons.inference import to_sparse
from bdl_lessons.models import ARD, lenet5, mlp
from tests.inference.test_prune import with_noise


def read(content):
    """The header and the arrays; no array is a pickled object."""
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    return json.loads(bytes(arrays.pop("header"))), arrays


@pytest.mark.parametrize("threshold", [-3.0, 3.0, 1e6, -1e6])
@pytest.mark.parametrize("model", [mlp((30, 20, 3), ARD(), nn.Tanh), lenet5(ARD())])
def test_the_file_holds_every_weight_at_its_place(model, threshold):
    network = to_sparse(with_noise(model), threshold)
    header, arrays = read(sparse_file(network))
    assert len(header["layout"]) == len(list(network))
    for number, (module, entry) in enumerate(zip(network, header["layout"], strict=True)):
        if entry["kind"] != "sparse":
            assert entry["kind"] == type(module).__name__
            continue
        assert (entry["stride"], entry["padding"]) == (module.stride, module.padding)
        found = np.zeros(entry["shape"], np.float32)
        positions = arrays[f"{number}.gaps"].astype(np.int64).cumsum()
        found.flat[positions] = arrays[f"{number}.values"]
        expected = torch.zeros(tuple(module.shape)).flatten()
        expected[module.index] = module.values
        assert np.array_equal(found.ravel(), expected)  # bits: copies
        assert np.array_equal(arrays[f"{number}.bias"], module.bias)


def test_a_gap_of_more_than_255_survives():
    model = with_noise(mlp((40, 40, 2), ARD()))
    with torch.no_grad():
        model[0].noise.log_sigma2.fill_(50.0)
        model[0].noise.log_sigma2[0, 1] = model[0].noise.log_sigma2[39, 38] = -50.0
    _, arrays = read(sparse_file(to_sparse(model)))
    assert arrays["0.gaps"].cumsum().tolist() == [1, 39 * 40 + 38]
    assert arrays["0.gaps"].dtype == np.uint16
    assert arrays["2.gaps"].dtype == np.uint8


def test_the_file_shrinks_with_the_weights():
    model = with_noise(mlp((200, 100, 10), ARD()))
    few, all_of_them = (len(sparse_file(to_sparse(model, t))) for t in (-8.0, 1e6))
    assert few < all_of_them / 20
    n_kept = sum(len(layer.values) for layer in to_sparse(model, -8.0) if hasattr(layer, "values"))
    assert few < 6 * n_kept + 4 * 110 + 2500  # 4 bytes a weight, at most 2 a gap, archive headers


def test_options_of_modules_are_in_the_header():
    header, _ = read(sparse_file(to_sparse(with_noise(lenet5(ARD())))))
    pools = [entry for entry in header["layout"] if entry["kind"] == "MaxPool2d"]
    assert [entry["kernel_size"] for entry in pools] == [2, 2]
    assert header["layout"][0]["shape"] == [20, 1, 5, 5]
