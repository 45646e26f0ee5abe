import pytest
import torch

from reproductions.chains import effective_sample_size, split_r_hat
from tests.draws import normal
from tests.tables import refused


def test_r_hat_by_hand():
    """Halves (0, 2) and (2, 4): within 2, means 1 and 3, so the square root of ½ + 2/2."""
    draws = torch.tensor([[0.0], [2.0], [2.0], [4.0]])
    assert float(split_r_hat(draws)) == pytest.approx(1.5**0.5)


def test_independent_draws_count_fully_and_repeated_ones_once():
    draws = normal(500, 200)
    assert float(effective_sample_size(draws)) == pytest.approx(100_000, rel=0.3)
    repeated = draws[:50].repeat_interleave(10, 0)
    assert float(effective_sample_size(repeated)) == pytest.approx(10_000, rel=0.3)


test_bad_input_is_refused = refused(
    (lambda: split_r_hat(torch.zeros(3, 2)), "number of draws"),
    (lambda: split_r_hat([0.0, 1.0, 2.0, 3.0]), "draws must be"),
    (lambda: effective_sample_size(torch.zeros(10, 1)), "number of chains"),
)
