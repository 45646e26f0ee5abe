import io
import json

import numpy as np
import pytest
import torch
from torch import nn

from bdl_lessons.inference import to_sparse
from bdl_lessons.models import ARD, Network, lenet5, mlp
from reproductions.sparse_file import sparse_bytes
from tests.inference.test_prune import with_noise


@pytest.mark.parametrize("threshold", [-3.0, 3.0, 1e6, -1e6])
@pytest.mark.parametrize("make", [lambda: mlp((30, 20, 3), ARD(), nn.Tanh), lambda: lenet5(ARD())])
def test_the_file_has_all_that_the_network_needs(make, threshold):
    network = to_sparse(with_noise(make()), threshold)
    with np.load(io.BytesIO(sparse_bytes(network)), allow_pickle=False) as stored:
        layout = json.loads(bytes(stored["header"]))["layout"]
        assert len(layout) == len(network)
        for number, (entry, layer) in enumerate(zip(layout, network, strict=True)):
            if entry["kind"] != "sparse":
                assert entry["kind"] == type(layer).__name__
                continue
            assert tuple(entry["shape"]) == layer.shape
            index = stored[f"{number}.gaps"].astype(int).cumsum()
            assert index.tolist() == layer.index.tolist()
            assert stored[f"{number}.values"].tolist() == layer.values.tolist()
            assert stored[f"{number}.bias"].tolist() == layer.bias.tolist()


def test_a_gap_of_more_than_255_survives():
    model = with_noise(mlp((40, 40, 2), ARD()))
    with torch.no_grad():
        model[0].noise.log_sigma2.fill_(50.0)
        model[0].noise.log_sigma2[0, 1] = model[0].noise.log_sigma2[39, 38] = -50.0
    with np.load(io.BytesIO(sparse_bytes(to_sparse(model)))) as stored:
        assert stored["0.gaps"].astype(int).cumsum().tolist() == [1, 39 * 40 + 38]


def test_the_file_shrinks_with_the_weights():
    model = with_noise(mlp((200, 100, 10), ARD()))
    few, all_of_them = (len(sparse_bytes(to_sparse(model, t))) for t in (-8.0, 1e6))
    assert few < all_of_them / 20
    n_kept = sum(len(layer.values) for layer in to_sparse(model, -8.0) if hasattr(layer, "values"))
    assert few < 6 * n_kept + 4 * 110 + 2500  # 4 bytes a weight, at most 2 a gap, archive headers


def test_what_cannot_be_stored_is_named():
    model = with_noise(mlp((4, 2), ARD()))
    with pytest.raises(TypeError, match="to_sparse"):
        sparse_bytes(model)
    with pytest.raises(TypeError, match="LogSoftmax"):
        sparse_bytes(to_sparse(Network(*model, nn.LogSoftmax(-1))))
