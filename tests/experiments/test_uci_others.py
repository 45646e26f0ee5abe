import torch

from bdl_lessons.experiments.uci_others import ExactGP


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def test_the_gp_is_fitted_where_the_line_search_tries_vanishing_length_scales():
    """Two levels explain nearly everything. Without the bound: no Cholesky factor."""
    generator = gen(1)
    level = torch.randint(0, 2, (60, 1), generator=generator).double()
    x = torch.cat([level, torch.randint(0, 5, (60, 1), generator=generator).double()], 1)
    x = torch.cat([x, torch.randn(60, 2, generator=generator).double()], 1)
    x = (x - x.mean(0)) / x.std(0, correction=0)
    y = x[:, 0] + 0.05 * x[:, 1] + 0.02 * torch.randn(60, generator=generator).double()
    predict = ExactGP(None, (), "").train([{}], x[None], y[None], {}, gen())
    draws = predict(x[None], 100, gen())
    assert draws.shape == (100, 1, 60)
    assert (draws.mean(0) - y).square().mean().sqrt() < 0.03
    assert draws.std(0).mean() < 0.03
