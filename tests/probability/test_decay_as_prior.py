"""Weight decay against the gradient of the ELBO itself."""

import pytest
import torch
from torch.distributions import Normal
from torch.nn import functional

from bdl_lessons.probability import implied_tau, weight_decay
from tests.draws import normal
from tests.tables import refused

DATA_TERMS = ("nll", "half_squared_error", "squared_error", "mse")
N, Q, K, D = 7, 4, 5, 2
TAU, LENGTH_SCALE, P_IN, P_HIDDEN, Y_STD = 1.7, 0.6, 0.25, 0.4, 3.0


def gaussian(mean: torch.Tensor | float, std: float) -> Normal:
    return Normal(torch.as_tensor(mean).double(), torch.tensor(std, dtype=torch.float64))


def data_loss(y_pred: torch.Tensor, y: torch.Tensor, data_term: str) -> torch.Tensor:
    if data_term == "nll":
        return -gaussian(y_pred * Y_STD, TAU**-0.5).log_prob(y * Y_STD).sum(-1).mean()
    if data_term == "mse":
        return functional.mse_loss(y_pred, y)
    return (y - y_pred).square().sum(-1).mean() / (2 if data_term == "half_squared_error" else 1)


def minus_elbo(M1, b, M2, z1, z2, x, y) -> torch.Tensor:
    """Masked weights, Gaussian log densities, KL by its definition; nothing from the package."""
    W1 = M1 * z1[:, None, :]
    W2 = M2 * z2[:, None, :]  # (N, K, Q), (N, D, K)
    hidden = torch.relu(torch.einsum("nkq,nq->nk", W1, x) + b)
    f = torch.einsum("ndk,nk->nd", W2, hidden)
    log_likelihood = gaussian(f * Y_STD, TAU**-0.5).log_prob(y * Y_STD).sum()
    prior = gaussian(0.0, 1 / LENGTH_SCALE)
    cross_entropy = -sum(
        (1 - p) * prior.log_prob(M).sum() + p * prior.log_prob(torch.zeros_like(M)).sum()
        for M, p in ((M1, P_IN), (b, 0.0), (M2, P_HIDDEN))
    )
    return -log_likelihood + cross_entropy


@pytest.mark.parametrize("data_term", DATA_TERMS)
@pytest.mark.parametrize("scaling", ["classic", "inverted"])
def test_one_sgd_step_with_weight_decay_is_one_step_on_the_elbo(data_term, scaling):
    x = normal(N, Q)
    y = normal(N, D, seed=1)
    z1, z2 = (normal(N, size, seed=3) > -0.5 for size in (Q, K))  # the masks of two layers
    theta = [normal(K, Q, seed=4), normal(K, seed=5), normal(D, K, seed=6)]
    keeps = [1 - P_IN, 1.0, 1 - P_HIDDEN] if scaling == "inverted" else [1.0, 1.0, 1.0]

    stored = [p.clone().requires_grad_() for p in theta]
    W1, b, W2 = stored
    hidden = torch.relu((x * z1 / keeps[0]) @ W1.T + b)
    loss = data_loss((hidden * z2 / keeps[2]) @ W2.T, y, data_term)
    options = {"data_term": data_term, "scaling": scaling, "n_outputs": D, "y_std": Y_STD}
    groups = [
        {"params": [p], "weight_decay": weight_decay(TAU, LENGTH_SCALE, N, p_drop, **options)}
        for p, p_drop in zip(stored, (P_IN, 0.0, P_HIDDEN), strict=True)
    ]
    for group, p_drop in zip(groups, (P_IN, 0.0, P_HIDDEN), strict=True):
        if data_term != "nll":
            tau = implied_tau(group["weight_decay"], LENGTH_SCALE, N, p_drop, **options)
            assert tau == pytest.approx(TAU)
    optimizer = torch.optim.SGD(groups, lr=1.0)
    loss.backward()
    optimizer.step()
    steps = [before - after.detach() for before, after in zip(theta, stored, strict=True)]

    # theta is what is stored; M = stored / keep, so dELBO/dstored = dELBO/dM / keep.
    leaves = [p.clone().requires_grad_() for p in theta]
    minus_elbo(*(p / keep for p, keep in zip(leaves, keeps, strict=True)), z1, z2, x, y).backward()
    precision = TAU * Y_STD**2
    per_nat = {"nll": 1, "half_squared_error": 1 / precision, "squared_error": 2 / precision}
    scale = per_nat.get(data_term, 2 / (precision * D)) / N
    for step, leaf in zip(steps, leaves, strict=True):
        torch.testing.assert_close(step, scale * leaf.grad, rtol=1e-10, atol=1e-12)


def decay(**change):
    good = {"tau": 1.0, "length_scale": 1.0, "n_train": 10, "p_drop": 0.5, "data_term": "mse"}
    return weight_decay(**good | {"scaling": "classic"} | change)


test_bad_input_names_the_argument = refused(
    *((lambda name=name: decay(**{name: 0}), name) for name in ("tau", "length_scale", "n_train")),
    (lambda: decay(p_drop=1.0), "p_drop"),
    (lambda: decay(data_term="rmse"), "data_term"),
    (lambda: decay(scaling="none"), "scaling"),
    (lambda: implied_tau(1e-4, 1.0, 9, 0.5, data_term="nll", scaling="classic"), "implies none"),
)
