import math
from functools import partial

import pytest
import torch
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal
from torch.nn.functional import cross_entropy, gaussian_nll_loss

from bdl_lessons.evaluation import log_mean_probs
from bdl_lessons.experiments.posteriors.deep_ensemble import (
    fit_ensemble,
    heteroscedastic_nll,
    mean_and_var,
    mixture_log_likelihood,
    mixture_moments,
    predict_ensemble,
)
from bdl_lessons.inference import adam
from bdl_lessons.models import BinaryDropout, initialise, mlp
from bdl_lessons.probability import gaussian_nll

PLAIN = BinaryDropout(0.0)


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def networks(widths, n=5):
    return [initialise(mlp(widths, PLAIN), gen(seed)) for seed in range(n)]


@pytest.fixture
def mixture():
    g = gen(1)
    mean = torch.randn(4, 6, 2, generator=g, dtype=torch.float64)
    var = torch.rand(4, 6, 2, generator=g, dtype=torch.float64) + 0.1
    components = Independent(Normal(mean.transpose(0, 1), var.sqrt().transpose(0, 1)), 1)
    law = MixtureSameFamily(Categorical(torch.ones(6, 4, dtype=torch.float64)), components)
    return mean, var, law


def test_moments_are_those_of_the_mixture(mixture):
    mean, var, law = mixture
    torch.testing.assert_close(mixture_moments(mean, var), (law.mean, law.variance))


def test_log_likelihood_is_that_of_the_mixture(mixture):
    mean, var, law = mixture
    y = torch.randn(6, 2, generator=gen(2), dtype=torch.float64)
    torch.testing.assert_close(mixture_log_likelihood(mean, var, y), law.log_prob(y))


def test_log_likelihood_changes_units_with_the_targets(mixture):
    mean, var, _ = mixture
    y = torch.randn(6, 2, generator=gen(2), dtype=torch.float64)
    scaled = mixture_log_likelihood(3 * mean + 1, 9 * var, 3 * y + 1)
    torch.testing.assert_close(scaled + 2 * math.log(3), mixture_log_likelihood(mean, var, y))


def test_nll_is_that_of_a_gaussian_with_its_constant():
    output = torch.randn(7, 6, generator=gen(3), dtype=torch.float64)
    y = torch.randn(7, 3, generator=gen(4), dtype=torch.float64)
    mean, var = mean_and_var(output)
    expected = gaussian_nll_loss(mean, y, var, full=True, reduction="none").sum(-1).mean()
    torch.testing.assert_close(heteroscedastic_nll(output, y), expected)


def test_variances_stay_positive_whatever_the_network_says():
    _, var = mean_and_var(torch.tensor([[0.0, -200.0], [0.0, 200.0]]))
    torch.testing.assert_close(var, torch.tensor([[1e-6], [200.0]]))


def test_the_ensemble_learns_the_noise_and_disagrees_away_from_the_data():
    x = torch.rand(400, 1, generator=gen(5)) * 2 - 1
    noise_std = torch.where(x > 0, 0.4, 0.05)
    y = torch.sin(3 * x) + noise_std * torch.randn(400, 1, generator=gen(6))
    settings = {"n_steps": 250, "optimizer": adam(0.03), "batch_size": 100}
    members = fit_ensemble(
        networks((1, 30, 2)), x, y, heteroscedastic_nll, generator=gen(7), **settings
    )
    at = torch.tensor([[-0.5], [0.5], [4.0]])
    outputs = predict_ensemble(members, at)
    assert outputs.shape == (5, 3, 2)
    mean, var = mean_and_var(outputs)
    assert (mean.mean(0)[:2] - torch.sin(3 * at[:2])).abs().max() < 0.15
    assert var.mean(0)[:2, 0].sqrt().tolist() == pytest.approx([0.05, 0.4], rel=0.4)
    assert mean.std(0)[2] > 5 * mean.std(0)[:2].max()


def test_the_average_of_classifiers_is_at_least_as_good_as_one_of_them():
    x = torch.randn(200, 2, generator=gen(8))
    labels = (x[:, 0] * x[:, 1] + 0.3 * torch.randn(200, generator=gen(9)) > 0).long()
    settings = {"n_steps": 100, "optimizer": adam(0.02), "generator": gen(10)}
    members = fit_ensemble(networks((2, 10, 2)), x[:100], labels[:100], cross_entropy, **settings)
    logits = predict_ensemble(members, x[100:])
    of_the_mean = -log_mean_probs(logits).gather(1, labels[100:, None]).mean()
    assert of_the_mean < torch.stack([cross_entropy(f, labels[100:]) for f in logits]).mean()


def test_a_weight_on_the_kl_is_weight_decay():
    x, y = torch.randn(20, 3, generator=gen(1)), torch.zeros(20, 1)
    norms = []
    for kl_weight in (0.0, 10.0):
        members = fit_ensemble(
            networks((3, 4, 1), 2),
            x,
            y + 1,
            partial(gaussian_nll, tau=1.0),
            n_steps=100,
            generator=gen(),
            optimizer=adam(0.02),
            kl_weight=kl_weight,
        )
        norms.append(sum(p.detach().square().sum() for p in members.parameters()))
    assert norms[1] < norms[0] / 3


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="means and D variances"):
        mean_and_var(torch.zeros(2, 3))
    with pytest.raises(ValueError, match="must agree"):
        heteroscedastic_nll(torch.zeros(5, 2), torch.zeros(5))
    with pytest.raises(ValueError, match="var"):
        mixture_log_likelihood(torch.zeros(2, 3, 1), torch.zeros(2, 3, 1), torch.zeros(3, 1))
    with pytest.raises(ValueError, match="mean"):
        mixture_log_likelihood(
            torch.full((2, 3, 1), torch.nan), torch.ones(2, 3, 1), torch.zeros(3, 1)
        )
