"""What the tests of joint distributions share: the dense mean and covariance."""

import torch

from bdl_lessons.models import Network, initialise


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def started(layer, seed=10):
    """The layer in float64, every parameter moved off its start value so that no two are alike."""
    g = generator(seed)
    layer = initialise(Network(layer), g)[0].double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=g, dtype=torch.float64)
    return layer


def design(layer, x):
    """``A`` with ``layer.activations(x, W).flatten(1) = A vec W``, by one basis matrix a column."""
    shape = layer.mu.shape
    basis = torch.eye(shape.numel(), dtype=x.dtype).view(-1, *shape)
    columns = [layer.activations(x, matrix).flatten(1) for matrix in basis]
    return torch.stack(columns, -1).detach()


def assert_moments(samples, mean, cov, bound=5.0):
    """Mean and covariance of Gaussian ``samples`` ``(N, D)`` within ``bound`` standard errors."""
    n = len(samples)
    var = cov.diagonal()
    assert ((samples.mean(0) - mean).abs() / (var / n).sqrt()).max() < bound
    error = ((var[:, None] * var + cov.square()) / n).sqrt()
    assert ((torch.cov(samples.T) - cov).abs() / error).max() < bound
