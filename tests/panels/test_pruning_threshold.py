import numpy as np
import pytest
import torch

from bdl_lessons.datasets import digits
from bdl_lessons.inference import to_sparse
from bdl_lessons.models import ARD, mlp
from bdl_lessons.panels import pruning_threshold as module


@pytest.fixture(scope="module")
def curves(stored):
    data = digits(seed=0)
    x, y = data.x_test.numpy(), data.y_test.numpy()
    return {name: module.threshold_curves(stored, name, x, y) for name in module.NETWORKS}


@pytest.mark.parametrize("network", module.NETWORKS[:2])
def test_cutting_agrees_with_the_package(stored, network):
    mus, log_alphas, biases = module.weights(stored, network)
    model = mlp((64, module.WIDTH, 10), ARD())
    with torch.no_grad():
        for layer, mu, values, bias in zip(
            (model[0], model[2]), mus, log_alphas, biases, strict=True
        ):
            layer.mu.copy_(torch.from_numpy(mu))
            layer.bias.copy_(torch.from_numpy(bias))
            floor = layer.mu.abs().clamp_min(torch.finfo(torch.float32).tiny).log()
            layer.noise.log_sigma2.copy_(torch.from_numpy(values) + 2 * floor)
    x = digits(seed=0).x_test
    cut = [mu * (values < 3) for mu, values in zip(mus, log_alphas, strict=True)]
    ours = to_sparse(model)(x).argmax(-1).numpy()
    assert (module.predict(cut, biases, x.numpy()) == ours).mean() > 0.995


def test_the_readout_counts_weights_and_names_the_accuracy(panel, stored, curves):
    _, log_alphas, _ = module.weights(stored, "ARD")
    n_kept = sum((values < 3).sum() for values in log_alphas)
    accuracy = curves["ARD"][0][module.THRESHOLDS.index(3.0)]
    readout = panel.render(threshold=3.0, network="ARD").readout
    assert f"Kept <b>{n_kept}</b> of 3700" in readout
    assert f"{100 * accuracy:.1f} %" in readout


def test_what_the_lesson_says_about_the_curves(stored, curves):
    """At 3 nine in ten weights go without a loss, or all if labels are random; above, not more."""
    at_3 = module.THRESHOLDS.index(3.0)
    assert curves["sparse VD, random labels"][1][at_3] == 1
    _, log_alphas, _ = module.weights(stored, "sparse VD")
    assert 20 <= (log_alphas[0] >= 3).all(1).sum() <= 30, "half of the units have no input left"
    for network in module.NETWORKS[:2]:
        accuracies, sparsities = curves[network]
        assert sparsities[at_3] > 0.9
        assert abs(accuracies[at_3:] - accuracies[at_3]).max() < 0.01
        assert accuracies[0] < 0.3
        assert (np.diff(sparsities) <= 0).all()
