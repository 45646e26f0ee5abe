import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from bdl_lessons.probability import all_masks, mask_probs
from tests.tables import refused


@given(st.floats(0, 1, exclude_max=True), st.integers(1, 9))
def test_probabilities_sum_to_one_with_mean_keep(p_drop, n_units):
    masks = all_masks(n_units)
    assert len({*map(tuple, masks.tolist())}) == 2**n_units
    probs = mask_probs(masks, p_drop)
    assert math.isclose(probs.sum(), 1, abs_tol=1e-12)
    assert torch.allclose(probs @ masks, torch.full((n_units,), 1 - p_drop, dtype=torch.float64))


test_rates_and_numbers_of_units_are_bounded = refused(
    (lambda: mask_probs(all_masks(2), 1.0), r"p_drop must lie in \[0, 1\)"),
    (lambda: mask_probs(torch.tensor([[2.0, 0.0]]), 0.3), "masks must hold 0 and 1"),
    (lambda: all_masks(21), "n_units must be"),
)
