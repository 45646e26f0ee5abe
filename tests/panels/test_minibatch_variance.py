import re

import pytest
import torch

from bdl_lessons.panels import minibatch_variance


def test_for_one_example_a_shared_draw_changes_nothing(panel):
    for quantity in minibatch_variance.QUANTITIES:
        readout = panel.render(batch_size=1, quantity=quantity).readout
        per_minibatch, per_example, share, _ = re.findall(r"<b>([\d.]+)", readout)
        assert float(per_minibatch) == pytest.approx(float(per_example), rel=0.01)
        assert share == "0"


def test_the_readout_is_the_ratio_of_measured_variances(panel):
    """Minibatches of 20 patients with replacement; one weight draw each, or one per example."""
    x, y, mu, var = minibatch_variance.posterior()
    generator = torch.Generator().manual_seed(0)
    n_batches, m = 20_000, 20
    rows = torch.randint(len(x), (n_batches, m), generator=generator)
    estimates = {}
    for name, n_draws in (("per minibatch", 1), ("per example", m)):
        eps = torch.randn(n_batches, n_draws, 10, generator=generator, dtype=torch.float64)
        b = (x[rows] * (mu + (10 * var).sqrt() * eps)).sum(-1)
        estimates[name] = (minibatch_variance.TAU / 2 * (y[rows] - b) ** 2).mean(1).var()
    readout = panel.render(batch_size=m, noise_scale=10.0, quantity="loss").readout
    shown = float(re.search(r"<b>([\d.]+)", readout)[1])
    ratio = estimates["per minibatch"] / estimates["per example"]
    assert shown == pytest.approx(ratio.item(), rel=0.05)


def test_the_posterior_is_the_best_independent_gaussian():
    x, y, mu, var = (t.requires_grad_() for t in minibatch_variance.posterior())
    loss = minibatch_variance.TAU / 2 * ((y - x @ mu).square().sum() + (x.square() @ var).sum())
    kl = 0.5 * (var + mu.square() - 1 - var.log()).sum()
    for grad in torch.autograd.grad(loss + kl, (mu, var)):
        assert grad.abs().max() < 1e-8
    residual_var = (y - x @ mu).var().item()
    assert residual_var == pytest.approx(1 / minibatch_variance.TAU, rel=0.1)


def test_the_crossing_is_the_first_size_at_which_the_covariance_is_more_than_half():
    for scale in minibatch_variance.NOISE_SCALES:
        for quantity in minibatch_variance.QUANTITIES.values():
            parts = minibatch_variance.example_parts(scale, quantity, "per minibatch")
            first = minibatch_variance.crossing_size(parts)
            for size, larger in ((first - 1, False), (first, True)):
                data, noise, shared = parts.at(size, 1)
                assert (shared > data + noise) == larger
