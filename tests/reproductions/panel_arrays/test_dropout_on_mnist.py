import pytest
import torch
from torch import nn

from bdl_lessons.panels import arrays
from reproductions.datasets.files import DatasetError
from reproductions.panel_arrays import dropout_on_mnist


@pytest.fixture(scope="module")
def splits():
    try:
        return [dropout_on_mnist.split(number) for number in range(2)]
    except DatasetError as error:
        pytest.skip(str(error))


def test_what_is_measured_has_the_layout_that_is_stored(splits):
    measured = dropout_on_mnist.make_arrays(n_networks=2, steps=(1, 2))
    stored = arrays.load("dropout_on_mnist")
    assert measured.keys() == stored.keys()
    for name, values in measured.items():
        assert values.dtype == stored[name].dtype, name
        assert values.ndim == stored[name].ndim, name
        assert torch.from_numpy(values).isfinite().all(), name
    n_decays = len(dropout_on_mnist.WEIGHT_DECAYS)
    n_networks = dropout_on_mnist.N_NETWORKS
    n_steps = len(dropout_on_mnist.STEPS)
    assert stored["decay_error"].shape == (n_decays, n_networks, n_steps, 2)
    assert stored["twice"].shape == (2, n_networks, 2)


def test_networks_have_images_of_their_own_and_three_labels_in_ten_are_random(splits):
    first, second = splits
    assert not (first.x[:, None] == second.x[None, :50]).all(-1).any()
    for data in splits:
        assert 0.2 < data.is_wrong.double().mean() < 0.34  # one in ten random labels is right


def test_dropout_keeps_the_mean_and_scaling_acts_on_both_layers():
    """Layers that do nothing, on inputs of ones."""
    same = nn.ModuleList([nn.Identity()] * 3)
    ones = torch.ones(500, 400)
    generator = torch.Generator().manual_seed(0)
    dropped = dropout_on_mnist.logits(same, ones, p_drop=0.5, generator=generator)
    assert dropped.mean() == pytest.approx(1, abs=0.03)
    assert dropped.var() == pytest.approx(3, abs=0.15)  # 1/keep² - 1, of two layers
    scaled = dropout_on_mnist.logits(same, ones, scale=0.5)
    torch.testing.assert_close(scaled, torch.full_like(scaled, 0.25))


def test_scores_are_per_cent_and_nats():
    a = torch.tensor([[2.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    error, nll = dropout_on_mnist.scores(a, torch.tensor([0, 0, 0]))
    right = -torch.log_softmax(a, -1)[:, 0].mean()
    assert error == pytest.approx(100 / 3)
    assert nll == pytest.approx(right.item(), rel=1e-5)
