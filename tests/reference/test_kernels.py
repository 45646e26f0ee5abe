import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import erf

from bdl_lessons.reference import (
    CosKernel,
    ErfKernel,
    NNGPKernel,
    ReLUKernel,
    cos_expectation,
    erf_expectation,
    relu_expectation,
)
from tests.draws import normal

EXPECTATIONS = {"relu": relu_expectation, "erf": erf_expectation, "cos": cos_expectation}
KERNELS = [ReLUKernel, ErfKernel, CosKernel]


@pytest.fixture(autouse=True)
def float64_parameters():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def quadrature(name: str, kxx: float, kyy: float, kxy: float, nodes: int = 60) -> float:
    """E[sigma(u) sigma(v)] in float64, by a rule that is independent of the closed form."""
    if name == "relu":
        # u = r sqrt(kxx) cos t, v by the Cholesky factor: the radial integral is 2, the angular
        # one is smooth on the sector where both are positive.
        a = kxy / math.sqrt(kxx)
        b = math.sqrt(kyy - kxy**2 / kxx)
        low = max(-math.pi / 2, -math.atan2(a, b))
        high = math.pi / 2
        z, w = np.polynomial.legendre.leggauss(nodes)
        t = low + (z + 1) / 2 * (high - low)
        product = math.sqrt(kxx) * np.cos(t) * (a * np.cos(t) + b * np.sin(t))
        return float((w * product).sum() * (high - low) / 2 * 2 / (2 * math.pi))
    z, w = np.polynomial.hermite_e.hermegauss(nodes)
    w = w / w.sum()
    u = math.sqrt(kxx) * z[:, None]
    v = kxy / math.sqrt(kxx) * z[:, None] + math.sqrt(kyy - kxy**2 / kxx) * z[None, :]
    averaged_over_phases = 0.5 * np.cos(u - v)  # cos(u + c) cos(v + c)
    product = erf(u) * erf(v) if name == "erf" else averaged_over_phases
    return float(w @ product @ w)


def pair(kxx, kyy, kxy, **options):
    return [torch.tensor(k, dtype=torch.float64, **options) for k in (kxx, kyy, kxy)]


@st.composite
def covariances(draw):
    kxx = draw(st.floats(0.05, 1.5))
    kyy = draw(st.floats(0.05, 1.5))
    correlation = draw(st.floats(-0.98, 0.98))
    return kxx, kyy, correlation * math.sqrt(kxx * kyy)


@pytest.mark.parametrize("name", EXPECTATIONS)
@given(k=covariances())
def test_closed_form_equals_quadrature(name, k):
    nodes = 60 if name != "erf" else 90
    expectation = EXPECTATIONS[name](*pair(*k))
    assert expectation.item() == pytest.approx(quadrature(name, *k, nodes), abs=2e-8)


def test_the_gradient_of_relu_is_right_with_variances_that_broadcast():
    inputs = pair([[1.3], [2.0]], [[1.5, 0.7, 1.1]], [[0.5, -0.6, 0.1]] * 2, requires_grad=True)
    assert torch.autograd.gradcheck(relu_expectation, inputs)
    assert torch.autograd.gradgradcheck(relu_expectation, inputs)


@pytest.mark.parametrize(
    ("name", "k", "value", "slope"),
    [
        ("relu", (1.7, 1.7, 1.7), 0.85, 0.5),  # F(k, k, k) = k / 2
        ("relu", (0.0, 1.0, 0.0), 0.0, None),
        ("erf", (1e12, 1e12, 1e12), 1.0, None),
        ("cos", (0.0, 0.0, 0.0), 0.5, 0.0),
    ],
)
def test_gradients_are_finite_at_equal_zero_and_saturated_inputs(name, k, value, slope):
    kxx, kyy, kxy = pair(*k, requires_grad=True)
    expectation = EXPECTATIONS[name](kxx, kyy, kxy)
    gradients = torch.stack(torch.autograd.grad(expectation, (kxx, kyy, kxy)))
    assert expectation.item() == pytest.approx(value, abs=1e-5)
    assert gradients.isfinite().all()
    if slope is not None:
        assert gradients.sum().item() == pytest.approx(slope)


@pytest.mark.parametrize("name", ["kxx", "kyy"])
def test_variances_that_would_enlarge_the_covariances_are_refused(name):
    arguments = {
        "kxx": torch.tensor(1.0),
        "kyy": torch.tensor(1.0),
        "kxy": torch.full((4, 1), 0.5),
    }
    assert cos_expectation(**arguments).shape == (4, 1)
    arguments[name] = torch.ones(4)
    with pytest.raises(ValueError, match=f"{name} has shape"):
        cos_expectation(**arguments)


def brute_force(kernel: NNGPKernel, x1, x2) -> torch.Tensor:
    """The recursion entry by entry, from the definition."""
    expectation = type(kernel).expectation

    def next_layer(moment):
        return kernel.bias_var.squeeze() + kernel.weight_var.squeeze() * moment

    k = torch.empty(len(x1), len(x2), dtype=torch.float64)
    for i, a in enumerate(x1):
        for j, b in enumerate(x2):
            var_a = next_layer(a @ a / len(a))
            var_b = next_layer(b @ b / len(a))
            cov = next_layer(a @ b / len(a))
            for _ in range(kernel.depth):
                cov = next_layer(expectation(var_a, var_b, cov))
                var_a = next_layer(expectation(var_a, var_a, var_a))
                var_b = next_layer(expectation(var_b, var_b, var_b))
            k[i, j] = cov
    return k


@pytest.mark.parametrize("kernel_class", KERNELS)
@pytest.mark.parametrize("depth", [1, 2, 4])
def test_kernel_equals_the_recursion_entry_by_entry(kernel_class, depth):
    kernel = kernel_class(depth, weight_var=1.6, bias_var=0.3)
    x1 = normal(5, 3)
    x2 = normal(4, 3, seed=1)
    assert torch.allclose(kernel(x1, x2).to_dense(), brute_force(kernel, x1, x2), atol=1e-12)


@pytest.mark.parametrize("kernel_class", KERNELS)
def test_gradients_on_the_full_matrix_are_finite(kernel_class):
    """The diagonal of k(x, x) is the case x = x'; a zero row is the case |x| = 0."""
    kernel = kernel_class(3, bias_var=0.0)
    x = torch.tensor([[0.0, 0.0], [1.0, 2.0], [1.0, 2.0]]).double().requires_grad_()
    total = kernel(x, x.clone()).to_dense().sum()
    total.backward()
    assert x.grad.isfinite().all()
    assert kernel.raw_weight_var.grad.isfinite().all()
    assert kernel.raw_bias_var.grad.item() == 0
    assert kernel.bias_var.item() == 0
