from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from bdl_lessons.inference import to_sparse
from bdl_lessons.models import ARD, Network, SparseVD, lenet5, mlp
from reproductions.sparse_file import load_sparse, save_sparse
from tests.inference.test_prune import generator, with_noise


@pytest.fixture
def path(tmp_path):
    """Of a stored network with few weights."""
    path = tmp_path / "net.npz"
    save_sparse(to_sparse(with_noise(mlp((30, 20, 3), ARD())), threshold=-2.0), path)
    return path


@pytest.mark.parametrize("threshold", [-3.0, 3.0, 1e6, -1e6])
def test_a_network_comes_back_as_it_was(tmp_path, threshold):
    for model, x in [
        (with_noise(mlp((30, 20, 3), ARD(), nn.Tanh)), torch.randn(5, 30, generator=generator())),
        (with_noise(lenet5(ARD())), torch.randn(2, 1, 28, 28, generator=generator())),
    ]:
        network = to_sparse(model, threshold)
        n_bytes = save_sparse(network, tmp_path / "net.npz")
        assert n_bytes == (tmp_path / "net.npz").stat().st_size
        torch.testing.assert_close(load_sparse(tmp_path / "net.npz")(x), network(x))


@pytest.mark.parametrize(
    "module",
    [nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True), nn.Flatten(2, 3), nn.ELU(0.5)],
    ids=str,
)
def test_modules_come_back_with_their_options(tmp_path, module):
    network = to_sparse(Network(SparseVD().conv2d(1, 2, 3, stride=2, padding=1), module))
    save_sparse(network, tmp_path / "net.npz")
    x = torch.randn(2, 1, 12, 12, generator=generator())
    torch.testing.assert_close(load_sparse(tmp_path / "net.npz")(x), network(x))


def test_a_gap_of_more_than_255_survives(path):
    model = with_noise(mlp((40, 40, 2), ARD()))
    with torch.no_grad():
        model[0].noise.log_sigma2.fill_(50.0)
        model[0].noise.log_sigma2[0, 1] = model[0].noise.log_sigma2[39, 38] = -50.0
    save_sparse(to_sparse(model), path)
    assert load_sparse(path)[0].index.tolist() == [1, 39 * 40 + 38]


def test_the_file_shrinks_with_the_weights(path):
    model = with_noise(mlp((200, 100, 10), ARD()))
    few, all_of_them = (save_sparse(to_sparse(model, t), path) for t in (-8.0, 1e6))
    assert few < all_of_them / 20
    n_kept = sum(len(layer.values) for layer in to_sparse(model, -8.0) if hasattr(layer, "values"))
    assert few < 6 * n_kept + 4 * 110 + 2500  # 4 bytes a weight, at most 2 a gap, archive headers


def test_a_truncated_file_another_file_and_no_file_are_named(path):
    whole = path.read_bytes()
    for share in (0.0, 0.1, 0.5, 0.9, 0.999):
        path.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(ValueError, match=r"net\.npz is not a complete file"):
            load_sparse(path)
    np.savez(path, a=np.ones(3))
    with pytest.raises(ValueError, match=r"net\.npz is not a complete file"):
        load_sparse(path)
    with pytest.raises(FileNotFoundError):
        load_sparse(path.with_name("nothing.npz"))


def test_flipped_bits_give_the_network_or_one_error(path):
    x, whole = torch.randn(2, 30, generator=generator()), path.read_bytes()
    expected = load_sparse(path)(x)
    for bit in torch.randint(8 * len(whole), (100,), generator=generator(1)).tolist():
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bytes(flipped))
        try:
            loaded = load_sparse(path)
        except ValueError:  # anything else fails the test
            continue
        torch.testing.assert_close(loaded(x), expected)


def test_a_pickled_object_is_never_built(path):
    class Trap:
        def __reduce__(self):
            return (Path.mkdir, (path.with_name("sprung"),))

    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files}
    np.savez(path, **arrays | {"0.values": np.array([Trap()], dtype=object)})
    with pytest.raises(ValueError, match=r"net\.npz"):
        load_sparse(path)
    assert not path.with_name("sprung").exists()


def test_what_cannot_be_stored_is_named_and_leaves_the_old_file(path):
    before, model = path.read_bytes(), with_noise(mlp((4, 2), ARD()))
    with pytest.raises(TypeError, match="to_sparse"):
        save_sparse(model, path)
    with pytest.raises(TypeError, match="LogSoftmax"):
        save_sparse(to_sparse(Network(*model, nn.LogSoftmax(-1))), path)
    assert path.read_bytes() == before
