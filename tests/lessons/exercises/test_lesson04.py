"""The solutions of lesson 04 against single bits, enumeration and Monte Carlo."""

import itertools

import torch

from bdl_lessons.lessons.exercises.lesson04 import kl_penalty, mask_noise, masked_weights
from bdl_lessons.probability import (
    all_masks,
    dropout_mixture,
    l2_kl,
    mask_probs,
    mixture_kl_monte_carlo,
)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_noise_on_features_is_noise_on_weights_to_the_last_bit():
    M, x, h = normal(5, 6), normal(7, 6, seed=1), normal(7, 6, seed=2)
    z = (torch.rand(7, 6, generator=torch.Generator().manual_seed(3)) < 0.6).double()
    on_features = M * (h * z)[:, None, :]
    on_weights = masked_weights(M, z) * h[:, None, :]
    assert torch.equal(on_features, on_weights)  # bits: a product with 0 or 1 is exact
    assert not torch.allclose(on_weights, masked_weights(M, 1 - z) * x[:, None, :])


def test_fresh_masks_and_a_shared_mask_have_one_mean_and_the_stated_variances():
    """All 8^3 choices of one mask for each of three examples, and all 8 shared ones."""
    masks = all_masks(3)
    probs = mask_probs(masks, 0.3)
    losses = (normal(3, 3, seed=1) @ masks.mT - 1).mT ** 2
    shared = losses.mean(1)
    mean = probs @ shared
    fresh, weight = [], []
    for choice in itertools.product(range(8), repeat=3):
        fresh.append(losses[list(choice), range(3)].mean())
        weight.append(probs[list(choice)].prod())
    fresh, weight = torch.stack(fresh), torch.stack(weight)
    torch.testing.assert_close(weight.sum(), torch.ones_like(mean))
    torch.testing.assert_close(weight @ fresh, mean)
    variances = torch.stack([probs @ (shared - mean) ** 2, weight @ (fresh - mean) ** 2])
    torch.testing.assert_close(mask_noise(losses, probs), variances)


def test_the_penalty_is_what_the_exact_kl_changes_by():
    """Two M with separate components: Monte Carlo differences against the penalty."""
    M, shift, s, p_drop, prior_var = torch.ones(8, 1).double(), 1.5, 0.1, 0.25, 0.5
    kls = []
    for weights in (M, shift * M):
        probs, means = dropout_mixture(weights, p_drop)
        generator = torch.Generator().manual_seed(0)
        kls.append(
            mixture_kl_monte_carlo(
                probs, means[0], s**2, prior_var, n_samples=40_000, generator=generator
            )
        )
    (near, near_error), (far, far_error) = kls
    none = torch.zeros(8).double()
    penalty = [kl_penalty(w, none, p_drop, prior_var**-0.5) for w in (M, shift * M)]
    difference = penalty[1] - penalty[0]
    assert abs((far - near) - difference) < 4 * (near_error + far_error)
    assert 4 * (near_error + far_error) < 0.2 * difference
    torch.testing.assert_close(penalty[0], l2_kl(M, prior_var**-0.5, p_drop, "classic"))
