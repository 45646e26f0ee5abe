"""Weight decay against the gradient of the ELBO itself."""

import pytest
import torch
from torch.distributions import Normal
from torch.nn import functional

from bdl_lessons.probability import implied_tau, weight_decay
from tests.draws import normal
from tests.tables import refused

DATA_TERMS = ("nll", "half_squared_error", "squared_error", "mse")
N = 7
Q = 4
K = 5
D = 2
TAU = 1.7
LENGTH_SCALE = 0.6
P_IN = 0.25
P_HIDDEN = 0.4
Y_STD = 3.0


def gaussian(mean: torch.Tensor | float, std: float) -> Normal:
    return Normal(torch.as_tensor(mean).double(), torch.tensor(std, dtype=torch.float64))


def data_loss(y_pred: torch.Tensor, y: torch.Tensor, data_term: str) -> torch.Tensor:
    if data_term == "nll":
        log_density = gaussian(y_pred * Y_STD, TAU**-0.5).log_prob(y * Y_STD)
        return -log_density.sum(-1).mean()
    if data_term == "mse":
        return functional.mse_loss(y_pred, y)
    squared_error = (y - y_pred).square().sum(-1).mean()
    return squared_error / 2 if data_term == "half_squared_error" else squared_error


def minus_elbo(M1, b, M2, z1, z2, x, y) -> torch.Tensor:
    """Masked weights, Gaussian log densities, KL by its definition; nothing from the package."""
    W1 = M1 * z1[:, None, :]  # (N, K, Q)
    W2 = M2 * z2[:, None, :]  # (N, D, K)
    hidden = torch.relu(torch.einsum("nkq,nq->nk", W1, x) + b)
    f = torch.einsum("ndk,nk->nd", W2, hidden)
    log_likelihood = gaussian(f * Y_STD, TAU**-0.5).log_prob(y * Y_STD).sum()
    prior = gaussian(0.0, 1 / LENGTH_SCALE)
    expected_log_prior = 0.0
    for M, p_drop in ((M1, P_IN), (b, 0.0), (M2, P_HIDDEN)):
        if_kept = prior.log_prob(M).sum()
        if_dropped = prior.log_prob(torch.zeros_like(M)).sum()
        expected_log_prior = expected_log_prior + (1 - p_drop) * if_kept + p_drop * if_dropped
    return -log_likelihood - expected_log_prior


@pytest.mark.parametrize("data_term", DATA_TERMS)
@pytest.mark.parametrize("scaling", ["classic", "inverted"])
def test_one_sgd_step_with_weight_decay_is_one_step_on_the_elbo(data_term, scaling):
    x = normal(N, Q)
    y = normal(N, D, seed=1)
    z1 = normal(N, Q, seed=3) > -0.5  # the masks of two layers
    z2 = normal(N, K, seed=3) > -0.5
    theta = [normal(K, Q, seed=4), normal(K, seed=5), normal(D, K, seed=6)]
    p_drops = [P_IN, 0.0, P_HIDDEN]
    keeps = [1 - p_drop if scaling == "inverted" else 1.0 for p_drop in p_drops]

    def decay(p_drop):
        return weight_decay(
            tau=TAU,
            length_scale=LENGTH_SCALE,
            n_train=N,
            p_drop=p_drop,
            data_term=data_term,
            scaling=scaling,
            n_outputs=D,
            y_std=Y_STD,
        )

    W1, b, W2 = stored = [parameter.clone().requires_grad_() for parameter in theta]
    hidden = torch.relu((x * z1 / keeps[0]) @ W1.T + b)
    y_pred = (hidden * z2 / keeps[2]) @ W2.T
    groups = [
        {"params": [parameter], "weight_decay": decay(p_drop)}
        for parameter, p_drop in zip(stored, p_drops, strict=True)
    ]
    optimizer = torch.optim.SGD(groups, lr=1.0)
    data_loss(y_pred, y, data_term).backward()
    optimizer.step()
    steps = [before - after.detach() for before, after in zip(theta, stored, strict=True)]

    # theta is what is stored; M = stored / keep, so dELBO/dstored = dELBO/dM / keep.
    leaves = [parameter.clone().requires_grad_() for parameter in theta]
    M1, M_b, M2 = [leaf / keep for leaf, keep in zip(leaves, keeps, strict=True)]
    minus_elbo(M1, M_b, M2, z1, z2, x, y).backward()
    precision = TAU * Y_STD**2
    per_nat = {
        "nll": 1,
        "half_squared_error": 1 / precision,
        "squared_error": 2 / precision,
        "mse": 2 / (precision * D),
    }
    scale = per_nat[data_term] / N
    for step, leaf in zip(steps, leaves, strict=True):
        torch.testing.assert_close(step, scale * leaf.grad, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("data_term", [term for term in DATA_TERMS if term != "nll"])
@pytest.mark.parametrize("scaling", ["classic", "inverted"])
@pytest.mark.parametrize("p_drop", [P_IN, 0.0, P_HIDDEN])
def test_the_implied_precision_is_the_one_that_the_decay_was_made_for(data_term, scaling, p_drop):
    options = {"data_term": data_term, "scaling": scaling, "n_outputs": D, "y_std": Y_STD}
    decay = weight_decay(TAU, LENGTH_SCALE, N, p_drop, **options)
    assert implied_tau(decay, LENGTH_SCALE, N, p_drop, **options) == pytest.approx(TAU)


def decay(tau=1.0, length_scale=1.0, n_train=10, p_drop=0.5, data_term="mse", scaling="classic"):
    return weight_decay(tau, length_scale, n_train, p_drop, data_term=data_term, scaling=scaling)


test_bad_input_names_the_argument = refused(
    (lambda: decay(tau=0), "tau"),
    (lambda: decay(length_scale=0), "length_scale"),
    (lambda: decay(n_train=0), "n_train"),
    (lambda: decay(p_drop=1.0), "p_drop"),
    (lambda: decay(data_term="rmse"), "data_term"),
    (lambda: decay(scaling="none"), "scaling"),
    (lambda: implied_tau(1e-4, 1.0, 9, 0.5, data_term="nll", scaling="classic"), "implies none"),
)
