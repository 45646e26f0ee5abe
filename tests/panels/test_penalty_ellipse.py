import numpy as np
import pytest

from bdl_lessons.panels.penalty_ellipse import examples, setting


def test_each_reflection_turns_the_noise_by_30_degrees():
    for T in range(7):
        C = setting(0.2, T, 25).C
        angle = 0.5 * np.arctan2(2 * C[0, 1], C[0, 0] - C[1, 1])
        assert np.isclose((angle - np.deg2rad(30 * T) + 0.1) % np.pi, 0.1)


@pytest.mark.parametrize(("T", "ratio"), [(0, 25), (1, 4), (4, 25)])
def test_the_penalty_is_what_noise_adds_and_the_weights_are_best(T, ratio):
    now = setting(0.32, T, ratio)
    h, y = examples()
    rng = np.random.default_rng(1)
    eta = rng.standard_normal((200_000, 1, 2)) * np.sqrt(now.alpha) @ now.U.T
    f = (h * (1 + eta)) @ now.w
    losses = 0.5 * ((y - f) ** 2).mean(1) - 0.5 * np.mean((y - h @ now.w) ** 2)
    assert losses.mean() == pytest.approx(now.penalty, abs=4 * losses.std() / len(f) ** 0.5)
    assert now.shares.sum() == pytest.approx(now.penalty)
    omega = (h[:, :, None] * h[:, None] * np.outer(now.w, now.w)).mean(0)
    assert now.bound == pytest.approx(np.linalg.eigvalsh(omega).max() * now.alpha.sum() / 2)
    assert now.penalty <= now.bound
    C = (now.U * now.alpha) @ now.U.T

    def objective(w):
        return 0.5 * np.mean((y - h @ w) ** 2) + 0.5 * w @ ((h.T @ h / len(h)) * C) @ w

    nearby = [objective(now.w + 0.01 * step) for step in rng.standard_normal((50, 2))]
    assert min(nearby) > objective(now.w)


def test_the_readout_is_the_mathematics(numbers):
    now = setting(0.1, 2, 4)
    *alpha, c12, w1, w2, penalty, _, bound = numbers(mean_alpha=0.1, n_reflections=2, ratio=4)
    assert np.allclose(alpha, now.alpha, atol=1e-4)
    assert c12 == pytest.approx(now.C[0, 1], abs=1e-4)
    assert (w1, w2) == pytest.approx(now.w, abs=1e-3)
    assert (penalty, bound) == pytest.approx((now.penalty, now.bound), abs=1e-4)
