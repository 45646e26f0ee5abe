"""The picture of lesson 02 says what the closed forms and the grid say."""

import re

import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.path import Path
from torch.distributions import MultivariateNormal

from bdl_lessons.datasets import bioassay
from bdl_lessons.panels import evidence_bar
from bdl_lessons.panels.evidence_bar import BIOASSAY, EXACT_CORRELATION, LINE
from bdl_lessons.probability import gaussian_kl_full
from bdl_lessons.reference import BayesLogistic, GridPosterior


def numbers(readout):
    """Data term, KL to the prior, ELBO, KL to the posterior and log evidence of a readout."""
    plain = re.sub(r"<[^>]+>", "", readout)
    return [float(number) for number in re.findall(r"-?\d+\.\d+", plain)]


@pytest.mark.parametrize("posterior", [LINE, BIOASSAY])
def test_the_numbers_of_the_readout_add_up(panel, posterior):
    for setting in ({}, {"shift_2": -1.5}, {"scale": 2.0}, {"correlation": 0.9}):
        data, kl_prior, elbo, kl_posterior, evidence = numbers(
            panel.render(posterior=posterior, **setting).readout
        )
        assert data - kl_prior == pytest.approx(elbo, abs=2e-3)
        assert elbo + kl_posterior == pytest.approx(evidence, abs=2e-3)
        assert min(kl_prior, kl_posterior) > 0


def test_at_the_posterior_the_gap_closes(panel):
    readout = panel.render(shift_1=0.0, scale=1.0, correlation=EXACT_CORRELATION).readout
    assert numbers(readout)[3] == 0.0
    assert "-0.000" not in readout


def gap(target, mean, cov):
    data_term, kl_prior = target.bound(mean, cov)
    return target.log_evidence - (data_term - kl_prior)


def test_the_gap_of_the_line_is_the_closed_form_divergence():
    target = evidence_bar.line_target()
    q = target.place((0.7, -0.4), 0.8, 0.3)
    std, corr = target.std, torch.eye(2, dtype=torch.float64)
    corr[0, 1] = corr[1, 0] = EXACT_CORRELATION
    expected = gaussian_kl_full(*q, target.mean, std[:, None] * corr * std)
    assert gap(target, *q) == pytest.approx(expected.item(), abs=1e-10)


def test_the_gap_of_the_bioassay_is_the_divergence_on_the_grid_and_what_the_lesson_says():
    target = evidence_bar.bioassay_target()
    q = target.place((-0.3, 0.1), 0.8, 0.5)
    X, y = bioassay.load()
    grid = GridPosterior(BayesLogistic(X, y, 100.0).log_joint, (-6.0, -8.0), (12.0, 45.0), n=300)
    expected = grid.kl_from(MultivariateNormal(*q).log_prob(grid.points))
    assert gap(target, *q) == pytest.approx(expected.item(), abs=1e-5)
    assert gap(target, *target.place((0.0, 0.0), 0.85, 0.5)) == pytest.approx(0.12, abs=0.01)


def test_ellipses_hold_the_mass_of_q_they_are_named_after():
    figure = Figure()
    update = evidence_bar.build_figure(figure)
    update(shift_1=0.6, shift_2=-0.4, scale=0.8, correlation=0.7, posterior=LINE)
    cov = 0.8**2 * torch.tensor([[1.0, 0.7], [0.7, 1.0]])
    draws = MultivariateNormal(torch.tensor([0.6, -0.4]), cov).sample((40_000,)).numpy()
    ellipses = figure.axes[0].lines[: len(evidence_bar.MASS)]
    shares = [Path(each.get_xydata()).contains_points(draws).mean() for each in ellipses]
    assert shares == pytest.approx([0.9, 0.5, 0.1], abs=0.015)
