from functools import partial

import pytest
import torch
from torch import nn

from bdl_lessons.inference import adam, fit
from bdl_lessons.models import StructuredDropout, initialise, mlp
from bdl_lessons.probability import gaussian_nll
from reproductions.posteriors.vector_starts import FrozenVectors, NearIdentity
from tests.draws import seeded


def relative_change(layer):
    """How far the covariance of the noise is from that of independent factors."""
    cov = layer.noise_cov().detach()
    independent = torch.diag(layer.alpha.detach())
    return ((cov - independent).norm() / independent.norm()).item()


def started(method, **options):
    network = mlp((40, 3), partial(method, alpha_spread=1.0, **options))
    return initialise(network, seeded(1))[0]


@pytest.mark.parametrize("start", ["pairs", "coordinates"])
@pytest.mark.parametrize("n_reflections", [2, 8])
def test_near_the_identity_the_noise_starts_almost_independent(start, n_reflections):
    usual = started(StructuredDropout, n_reflections=n_reflections)
    near = started(NearIdentity, n_reflections=n_reflections, start=start)
    assert relative_change(near) < relative_change(usual) / 2
    assert relative_change(near) > 1e-3, "no gradient would turn the vectors"
    torch.testing.assert_close(near.raw_log_alpha, usual.raw_log_alpha)


def test_axes_come_again_when_there_are_more_vectors_than_units():
    layer = started(NearIdentity, n_reflections=90, start="coordinates")
    times = torch.bincount(layer.vectors.abs().argmax(1), minlength=40)
    assert set(times.tolist()) == {2, 3}
    assert times.sum() == 90


def test_another_start_is_refused():
    with pytest.raises(ValueError, match="start must be one of"):
        NearIdentity(nn.Linear(4, 3), start="zero")


def test_training_moves_the_alphas_and_not_the_frozen_vectors():
    network = initialise(mlp((5, 2), partial(FrozenVectors, n_reflections=2)), seeded(1))
    vectors = network[0].vectors.clone()
    log_alpha = network[0].log_alpha.clone()
    fit(
        network,
        torch.randn(30, 5, generator=seeded(2)),
        torch.randn(30, 2, generator=seeded(3)),
        partial(gaussian_nll, tau=1.0),
        n_steps=5,
        generator=seeded(4),
        optimizer=adam(0.1),
    )
    torch.testing.assert_close(network[0].vectors, vectors)
    assert (network[0].log_alpha - log_alpha).abs().min() > 0.01
