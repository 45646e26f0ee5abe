import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from bdl_lessons.inference import to_sparse
from bdl_lessons.models import ARD, Network, SparseVD, lenet5, mlp
from reproductions import sparse_file
from reproductions.sparse_file import load_sparse, save_sparse
from tests.inference.test_prune import generator, with_noise


@pytest.fixture
def pruned():
    return to_sparse(with_noise(mlp((30, 20, 3), ARD())), threshold=-2.0)


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
    assert [file.name for file in tmp_path.iterdir()] == ["net.npz"]


def test_a_gap_of_more_than_255_survives(tmp_path):
    model = with_noise(mlp((40, 40, 2), ARD()))
    with torch.no_grad():
        model[0].noise.log_sigma2.fill_(50.0)
        model[0].noise.log_sigma2[0, 1] = model[0].noise.log_sigma2[39, 38] = -50.0
    network = to_sparse(model)
    save_sparse(network, tmp_path / "net.npz")
    assert load_sparse(tmp_path / "net.npz")[0].index.tolist() == [1, 39 * 40 + 38]


def test_the_file_shrinks_with_the_weights(tmp_path):
    model = with_noise(mlp((200, 100, 10), ARD()))
    few, all_of_them = (save_sparse(to_sparse(model, t), tmp_path / "net.npz") for t in (-8.0, 1e6))
    assert few < all_of_them / 20
    n_kept = sum(len(layer.values) for layer in to_sparse(model, -8.0) if hasattr(layer, "values"))
    assert few < 6 * n_kept + 4 * 110 + 2500  # 4 bytes a weight, at most 2 a gap, archive headers


def test_nothing_in_the_file_is_pickled(pruned, tmp_path):
    save_sparse(pruned, tmp_path / "net.npz")
    with np.load(tmp_path / "net.npz", allow_pickle=False) as stored:
        assert {stored[name].dtype.kind for name in stored.files} <= {"u", "f"}


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_named(pruned, tmp_path, share):
    path = tmp_path / "net.npz"
    save_sparse(pruned, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ValueError, match=r"net\.npz is not a complete file"):
        load_sparse(path)


def test_a_flipped_byte_is_noticed(pruned, tmp_path):
    path = tmp_path / "net.npz"
    save_sparse(pruned, path)
    whole = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo("0.values.npy")
    whole[entry.header_offset + 30 + len(entry.filename) + 60] ^= 0xFF
    path.write_bytes(whole)
    with pytest.raises(ValueError, match="not a complete file"):
        load_sparse(path)


@pytest.mark.parametrize(
    "change",
    [
        {"0.gaps": np.array([10_000], np.uint16)},
        {"0.values": np.array([np.nan], np.float32), "0.gaps": np.array([0], np.uint8)},
        {"0.bias": np.zeros(3, np.float32)},
        {"0.bias": np.full(20, np.nan, np.float32)},
        {"0.values": np.ones((1, 1), np.float32), "0.gaps": np.ones((1, 1), np.uint8)},
        {"0.values": np.ones(2, np.float32), "0.gaps": np.array([3, 0], np.uint8)},
        {"0.values": np.ones(2, np.float32), "0.gaps": np.array([3, -2], np.int8)},
        {"0.values": np.ones(2, np.float32), "0.gaps": np.array([3, 1.5])},
        {"0.values": np.ones(2, np.int64), "0.gaps": np.array([3, 1], np.uint8)},
        {"0.values": np.ones(2, np.float32), "0.gaps": np.array([3, 2**64 - 2], np.uint64)},
        {"header": np.frombuffer(b'{"version": 1, "layout": []}', np.uint8)},
        {"header": np.frombuffer(b'{"version": 2, "layout": [{"kind": "Exec"}]}', np.uint8)},
        {"header": np.array([{}], dtype=object)},
    ],
)
def test_a_file_with_other_content_is_refused(pruned, tmp_path, change):
    path = tmp_path / "net.npz"
    save_sparse(pruned, path)
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files} | change
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=r"net\.npz is not a complete file"):
        load_sparse(path)


def test_a_pickled_object_is_never_built(pruned, tmp_path):
    class Trap:
        def __reduce__(self):
            return (Path.mkdir, (tmp_path / "sprung",))

    save_sparse(pruned, tmp_path / "net.npz")
    with np.load(tmp_path / "net.npz") as stored:
        arrays = {name: stored[name] for name in stored.files}
    np.savez(tmp_path / "net.npz", **arrays | {"0.values": np.array([Trap()], dtype=object)})
    with pytest.raises(ValueError, match=r"net\.npz"):
        load_sparse(tmp_path / "net.npz")
    assert not (tmp_path / "sprung").exists()


def test_another_array_file_and_no_file(tmp_path):
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    with pytest.raises(ValueError, match=r"other\.npz"):
        load_sparse(tmp_path / "other.npz")
    with pytest.raises(FileNotFoundError):
        load_sparse(tmp_path / "nothing.npz")


def test_a_failed_save_leaves_the_old_file_and_no_other(pruned, tmp_path, monkeypatch):
    path = tmp_path / "net.npz"
    save_sparse(pruned, path)
    before = path.read_bytes()

    def full_disk(file, **arrays):
        file.write(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez_compressed", full_disk)
    with pytest.raises(OSError, match="no space"):
        save_sparse(pruned, path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["net.npz"]


def test_what_cannot_be_stored_is_named(tmp_path):
    model = with_noise(mlp((4, 2), ARD()))
    with pytest.raises(TypeError, match="to_sparse"):
        save_sparse(model, tmp_path / "net.npz")
    odd = to_sparse(Network(*model, nn.LogSoftmax(-1)))
    with pytest.raises(TypeError, match="LogSoftmax"):
        save_sparse(odd, tmp_path / "net.npz")
    assert not list(tmp_path.iterdir())


def test_the_header_is_readable(pruned, tmp_path):
    save_sparse(pruned, tmp_path / "net.npz")
    with np.load(tmp_path / "net.npz") as stored:
        header = json.loads(bytes(stored["header"]))
    assert [entry["kind"] for entry in header["layout"]] == ["sparse", "ReLU", "sparse"]


@pytest.mark.parametrize(
    "module",
    [
        nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True),
        nn.MaxPool2d((2, 1)),
        nn.ELU(0.1),
        nn.Softplus(beta=5.0),
        nn.GELU("tanh"),
        nn.ReLU(inplace=True),
        nn.Flatten(2),
        nn.Tanh(),
    ],
    ids=str,
)
def test_modules_come_back_with_their_options(tmp_path, module):
    network = to_sparse(Network(SparseVD().conv2d(1, 2, 3), module))
    save_sparse(network, tmp_path / "net.npz")
    x = torch.randn(2, 1, 12, 12, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(load_sparse(tmp_path / "net.npz")(x), network(x))


def test_flipped_bits_give_the_network_or_one_error(pruned, tmp_path):
    path, x = tmp_path / "net.npz", torch.randn(2, 30, generator=generator())
    save_sparse(pruned, path)
    whole = path.read_bytes()
    for bit in torch.randint(8 * len(whole), (300,), generator=generator(1)).tolist():
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bytes(flipped))
        try:
            loaded = load_sparse(path)
        except ValueError:  # anything else fails the test
            continue
        torch.testing.assert_close(loaded(x), pruned(x))


def test_a_file_that_would_fill_the_memory_is_refused(pruned, tmp_path, monkeypatch):
    path = tmp_path / "net.npz"
    save_sparse(pruned, path)
    monkeypatch.setattr(sparse_file, "MAX_WEIGHTS", 599)
    with pytest.raises(ValueError, match=r"net\.npz .*a layer has 600 weights"):
        load_sparse(path)
    monkeypatch.setattr(sparse_file, "MAX_WEIGHTS", 10)
    with pytest.raises(ValueError, match=r"net\.npz .*an array has more than 10 numbers"):
        load_sparse(path)
