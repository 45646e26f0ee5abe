import torch

from reproductions.posteriors.mnf import MaskedRealNVP

from .distributions import generator


def flow(dim=4, n_steps=3):
    flow = MaskedRealNVP(dim, 6, n_steps).double()
    flow.reset_parameters(generator(1))
    return flow


def test_log_det_is_that_of_the_jacobian():
    f = flow()
    z = torch.randn(4, generator=generator(2), dtype=torch.float64)
    for seed in range(5):
        _, log_det = f(z, generator(seed))
        jacobian = torch.autograd.functional.jacobian(lambda z, s=seed: f(z, generator(s))[0], z)
        torch.testing.assert_close(log_det, torch.linalg.slogdet(jacobian)[1])


def test_every_row_has_masks_of_its_own_and_kept_numbers_stay():
    f = flow(n_steps=1)
    z = torch.ones(1000, 4, dtype=torch.float64)
    out, log_det = f(z, generator(3))
    kept = out == 1
    assert len(kept.unique(dim=0)) == 16  # bits: Booleans
    assert abs(kept.double().mean() - 0.5) < 4 * (0.25 / 4000) ** 0.5
    assert log_det.shape == (1000,)


def test_no_steps_are_the_identity_and_no_generator_is_a_fixed_path():
    z = torch.randn(5, 4, generator=generator(2), dtype=torch.float64)
    out, log_det = flow(n_steps=0)(z, generator())
    assert torch.equal(out, z)  # bits: no step computes anything
    assert not log_det.any()
    torch.testing.assert_close(flow()(z, None), flow()(z, None))
    assert not torch.allclose(flow()(z, generator(1))[0], flow()(z, generator(2))[0])
