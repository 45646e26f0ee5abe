"""MNF: factors on the units of a layer, their distribution bent by a flow. Lesson 13."""

import math

import torch
from torch import Generator, Tensor, nn

from bdl_lessons.core.random import standard_normal
from bdl_lessons.core.validation import integer
from reproductions.posteriors.matrix import MatrixLayer, noisy


class MNF(MatrixLayer):
    r"""Multiplicative normalizing flows (Louizos and Welling, ICML 2017).

    ``W | z ~ N(z ∘ M, sigma**2)`` with one factor z for each unit, and z from a flow. In linear
    layers z_k multiplies what leaves input k, but not the bias; in convolutions z_j multiplies all
    that leads to channel j, its bias too. The factors begin as ``N(m0, s0**2)``. An auxiliary
    ``r(z | W)`` guesses z from the weights, and the KL to the prior, N(0, 1) for each weight, has
    the bound

    .. math:: \mathrm{KL} \le \mathbb{E}_{q(z)} \mathrm{KL}\big(q(W|z) \,\|\, p(W)\big)
              + \mathbb{E}_{q(W, z)} \big[\log q(z) - \log r(z|W)\big]

    r is a Gaussian, at the end of a flow of z, of mean ``b1 * a`` and precision ``exp(b2 * a)``; a
    is the mean of ``c' W`` over the axis that has no factors, or of its tanh for linear layers.
    ``"mean"`` is the path of ``m0`` through the middle of the flow, as published; it is not the
    mean of the distribution.

    Defaults as in the public code, whose ``logvar_W`` is a log *standard deviation*.

    Args:
        inner: the ``nn.Linear`` or ``nn.Conv2d``; its weights and biases are ``M``.
        n_flows: steps of each of the two flows, of q and of r; 0 leaves Gaussian factors.
        widths: of their hidden layers.
        z_mean: where the means of the factors start, give or take 0.1. Published: 0 with flows, so
            that the layer starts as noise around 0, and 1 without.

    >>> layer = MNF(nn.Linear(3, 2), widths=(4, 5))
    >>> layer(torch.ones(7, 3), "per_example", torch.Generator()).shape
    torch.Size([7, 2])
    """

    def __init__(
        self,
        inner: nn.Linear | nn.Conv2d,
        n_flows: int = 2,
        widths: tuple[int, int] = (50, 100),
        z_mean: float = 0.0,
    ) -> None:
        super().__init__(inner)
        integer("n_flows", n_flows, least=0)
        weight = inner.weight
        self._on_inputs = weight[0, 0].numel() == 1
        n_factors = self.n_units if self._on_inputs else len(weight)
        n_weights = weight[0].numel()
        log_sigma2 = torch.full(self.mu.shape, -18.0)
        log_sigma2[:, n_weights:] = -9.0  # of the bias; both as in the public code
        self.log_sigma2 = nn.Parameter(log_sigma2)
        self._z_start = z_mean
        self.z_mean = nn.Parameter(torch.full((n_factors,), z_mean))
        self.z_log_var = nn.Parameter(torch.full((n_factors,), math.log(0.1)))
        self.flow = MaskedRealNVP(n_factors, widths[0], n_flows)
        self.aux_flow = MaskedRealNVP(n_factors, widths[1], n_flows)
        self.aux_in = nn.Parameter(torch.zeros(n_factors))
        self.aux_mean = nn.Parameter(torch.zeros(n_factors))
        self.aux_precision = nn.Parameter(torch.zeros(n_factors))
        self._generator: Generator | None = None
        self.reset_noise(torch.default_generator)

    @torch.no_grad()
    def reset_noise(self, generator: Generator) -> None:
        """Draw the means of the factors, the auxiliary numbers and both flows."""
        for parameter in (self.z_mean, self.aux_in, self.aux_mean, self.aux_precision):
            eps = standard_normal(parameter.shape, generator, self.mu)
            parameter.copy_(0.1 * eps)
        self.z_mean += self._z_start
        self.flow.reset_parameters(generator)
        self.aux_flow.reset_parameters(generator)

    def mean_matrix(self) -> Tensor:
        """What the path of ``m0`` through the middle of the flow makes of ``M``."""
        z, _ = self.flow(self.z_mean, None)
        return self.scaled_mean(z)

    def draw_matrices(self, n_samples: int, generator: Generator) -> Tensor:
        """The factors of each draw, then the noise of the weights given these."""
        z, _ = self.draw_z((n_samples,), generator)
        var = self.log_sigma2.exp().expand(n_samples, -1, -1)
        return noisy(self.scaled_mean(z), var, generator)

    def draw_activations(self, x: Tensor, generator: Generator) -> Tensor:
        """The factors of each example, then the noise of its activations."""
        z, _ = self.draw_z(x.shape[: -self.unit_dims], generator)
        if self.unit_dims == 3:
            z = z[..., None, None]
        var = self.activations(x.square(), self.log_sigma2.exp())
        if self._on_inputs:
            return noisy(self.activations(x * z, self.mu), var, generator)
        return noisy(self.activations(x, self.mu) * z, var, generator)

    def draw_z(self, leading: tuple[int, ...], generator: Generator) -> tuple[Tensor, Tensor]:
        """Factors ``(*leading, D)`` and the log determinants of their flow, ``(*leading,)``."""
        self._generator = generator
        eps = standard_normal((*leading, len(self.z_mean)), generator, self.z_mean)
        start = self.z_mean + (self.z_log_var / 2).exp() * eps
        return self.flow(start, generator)

    def scaled_mean(self, z: Tensor) -> Tensor:
        """The mean matrix given factors ``(..., D)``: ``(..., L, K + 1)``."""
        if not self._on_inputs:
            return z[..., None] * self.mu
        if self.bias is not None:
            z = torch.cat([z, torch.ones_like(z[..., :1])], dim=-1)
        return z[..., None, :] * self.mu

    def kl(self) -> Tensor:
        """An unbiased estimate of the bound, in nats, from one z; it may come out negative.

        Drawn by the generator that the layer last drew from; ValueError if there was none.
        """
        if self._generator is None:
            raise ValueError("the KL is estimated by a draw: run the layer first, not with 'mean'")
        z, log_det = self.draw_z((), self._generator)
        mean = self.scaled_mean(z)
        sigma2 = self.log_sigma2.exp()
        kl_weights = (sigma2 + mean.square() - 1 - self.log_sigma2).sum() / 2
        entropy_of_start = (1 + math.log(2 * math.pi) + self.z_log_var).sum() / 2
        entropy = entropy_of_start + log_det
        return kl_weights - entropy - self.auxiliary_log_density(z, mean, sigma2)

    def auxiliary_log_density(self, z: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        """``log r(z | W)`` at a draw of W, of which only ``c' W`` is drawn: it is Gaussian too."""
        if self._on_inputs:
            mean = mean[:, : len(z)].T
            var = var[:, : len(z)].T
        c = self.aux_in
        a = noisy(c @ mean, c.square() @ var, self._generator)
        if self._on_inputs:
            a = a.tanh()
        a = a.mean()
        end, log_det = self.aux_flow(z, self._generator)
        log_precision = self.aux_precision * a
        squares = log_precision.exp() * (end - self.aux_mean * a).square()
        return log_det - (squares + math.log(2 * math.pi) - log_precision).sum() / 2


class MaskedRealNVP(nn.Module):
    """Steps that move some of D numbers by what the others say.

    A step draws a mask m of zeros and ones for every example, with probability 1/2, and moves the
    rest towards a shift as far as a gate says, both of the numbers kept. Densities are those *given
    the masks*. (Dinh, Sohl-Dickstein and Bengio, ICLR 2017; with this gate Louizos and Welling,
    ICML 2017.) ``width`` is that of the hidden layer; without steps it is the identity.
    """

    def __init__(self, dim: int, width: int, n_steps: int) -> None:
        super().__init__()
        self.hidden = nn.ModuleList(nn.Linear(dim, width) for _ in range(n_steps))
        self.shift = nn.ModuleList(nn.Linear(width, dim) for _ in range(n_steps))
        self.gate = nn.ModuleList(nn.Linear(width, dim) for _ in range(n_steps))

    @torch.no_grad()
    def reset_parameters(self, generator: Generator) -> None:
        """Uniform weights of variance 1 / fan_in, biases 0 but for the gates', as published.

        These are 2: ``sigmoid(2) = 0.88`` of a number is kept in a step.
        """
        for layer in (*self.hidden, *self.shift, *self.gate):
            uniform = torch.rand(layer.weight.shape, generator=generator, device=generator.device)
            bound = (3 / layer.in_features) ** 0.5
            layer.weight.copy_((2 * uniform - 1) * bound)
            layer.bias.fill_(2 if layer in self.gate else 0)

    def forward(self, z: Tensor, generator: Generator | None) -> tuple[Tensor, Tensor]:
        """``(..., D)`` to ``(..., D)`` and the log determinant ``(...)``.

        Without a generator every mask is 1/2, and the log determinant means nothing.
        """
        log_det = torch.zeros_like(z[..., 0])
        for hidden, shift, gate in zip(self.hidden, self.shift, self.gate, strict=True):
            if generator is None:
                mask = torch.full_like(z, 0.5)
            else:
                uniform = torch.rand(z.shape, generator=generator, device=generator.device)
                mask = (uniform < 0.5).to(z)
            h = hidden(mask * z).tanh()
            kept = gate(h).sigmoid()
            moved = kept * z + (1 - kept) * shift(h)
            z = mask * z + (1 - mask) * moved
            log_det = log_det + ((1 - mask) * kept.log()).sum(-1)
        return z, log_det
