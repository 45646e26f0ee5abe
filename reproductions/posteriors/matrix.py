"""Layers whose weights and biases have one joint distribution, which is drawn as a matrix.

Row j of the matrix holds the K weights that lead to output j, then its bias: ``(L, K + 1)``, or
``(L, K)`` for a layer without bias. A convolution with C channels and filters of k x k pixels has
``K = C * k * k``. Lesson 13.
"""

import torch
from torch import Tensor
from torch.nn import functional

from bdl_lessons.core.random import standard_normal
from bdl_lessons.models import Sampling, StochasticLayer
from bdl_lessons.models.layers.base import add_noise


class MatrixLayer(StochasticLayer):
    """A layer with one joint distribution of all weights and biases of ``inner``.

    A method adds ``reset_noise`` and ``kl`` of every layer, and

    - :meth:`draw_matrices`: the weights and biases of whole functions;
    - :meth:`draw_activations`: outputs with a matrix of its own for every example, none of which is
      formed;
    - :meth:`mean_matrix`, if the mean is another than ``mu``.
    """

    @property
    def mu(self) -> Tensor:
        """``weight`` and ``bias`` as one matrix, ``(L, K + 1)``: the mean, for most methods."""
        weight = self.weight.flatten(1)
        if self.bias is None:
            return weight
        return torch.cat([weight, self.bias[:, None]], dim=1)

    def mean_matrix(self) -> Tensor:
        """The mean of the matrix, ``(L, K + 1)``."""
        return self.mu

    def draw_matrices(self, n_samples: int, generator: torch.Generator) -> Tensor:
        """``n_samples`` draws of the matrix, ``(S, L, K + 1)``."""
        raise NotImplementedError

    def draw_activations(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Outputs ``(..., B, L)`` under a draw for every example."""
        raise NotImplementedError

    def forward(
        self, x: Tensor, sampling: Sampling | None = None, generator: torch.Generator | None = None
    ) -> Tensor:
        """``(..., B, L)``, or ``(..., B, L, H', W')``; see :class:`StochasticLayer`."""
        self.check_call(x, sampling, generator)
        if sampling == "mean":
            return self.activations(x, self.mean_matrix())
        if sampling == "per_example":
            return self.draw_activations(x, generator)
        has_sample_axis = x.dim() == self.unit_dims + 2
        samples = x if has_sample_axis else x[None]
        y = self.activations(samples, self.draw_matrices(len(samples), generator))
        return y if has_sample_axis else y[0]

    def activations(self, x: Tensor, matrix: Tensor) -> Tensor:
        """What ``matrix`` makes of ``x``, linear in both: the bias is a weight on a constant 1.

        ``(N, K + 1)`` acts on all of ``x`` and gives N units or channels, not always L of them;
        ``(S, N, K + 1)`` gives each sample of ``x``, ``(S, B, ...)``, its own matrix.
        """
        if self.unit_dims == 3 and matrix.dim() == 3:
            return torch.vmap(self.activations)(x, matrix)
        bias = None
        if self.bias is not None:
            bias = matrix[..., -1]
            matrix = matrix[..., :-1]
        weight = matrix.unflatten(-1, self.weight.shape[1:])
        if self.unit_dims == 1 and weight.dim() == 2:
            return functional.linear(x, weight, bias)
        if self.unit_dims == 1:
            y = x @ weight.mT
            return y if bias is None else y + bias[..., None, :]
        if x.dim() == 4:
            return self.inner._conv_forward(x, weight, bias)
        images = x.flatten(0, -4)
        y = self.inner._conv_forward(images, weight, bias)
        return y.unflatten(0, x.shape[:-3])


def noisy(mean: Tensor, var: Tensor, generator: torch.Generator) -> Tensor:
    """Independent Gaussians. Where ``var`` is 0 its gradient is 0, not infinite."""
    return add_noise(mean, var, standard_normal(mean.shape, generator, mean))
