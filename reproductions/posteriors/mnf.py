"""MNF: factors on the units of a layer, their distribution bent by a normalising flow."""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from bdl_lessons.core.random import standard_normal
from reproductions.posteriors.matrix import MatrixFactory, MatrixLayer, WeightPosterior, noisy


class MaskedRealNVP(nn.Module):
    """Steps that move some of D numbers by what the others say.

    A step draws a mask m of zeros and ones for every example, with probability 1/2, and moves the
    rest towards a shift as far as a gate says, both of the numbers kept. Densities are those *given
    the masks*. (Dinh, Sohl-Dickstein and Bengio, ICLR 2017; with this gate Louizos and Welling,
    ICML 2017.) ``width`` is that of the hidden layer; without steps it is the identity.
    """

    def __init__(self, dim: int, width: int, n_steps: int) -> None:
        super().__init__()
        self.hidden, self.shift, self.gate = (
            nn.ModuleList(nn.Linear(*sizes) for _ in range(n_steps))
            for sizes in ((dim, width), (width, dim), (width, dim))
        )

    @torch.no_grad()
    def reset_parameters(self, generator: Generator) -> None:
        """Uniform weights of variance 1 / fan_in, biases 0 but for the gates', as published:
        ``sigmoid(2) = 0.88`` of a number is kept in a step."""
        for layer in (*self.hidden, *self.shift, *self.gate):
            uniform = torch.rand(layer.weight.shape, generator=generator, device=generator.device)
            layer.weight.copy_((2 * uniform - 1) * (3 / layer.in_features) ** 0.5)
            layer.bias.fill_(2 if layer in self.gate else 0)

    def forward(self, z: Tensor, generator: Generator | None) -> tuple[Tensor, Tensor]:
        """``(..., D)`` to ``(..., D)`` and the log determinant ``(...)``.

        Without a generator every mask is 1/2, and the log determinant means nothing.
        """
        log_det = torch.zeros_like(z[..., 0])
        for hidden, shift, gate in zip(self.hidden, self.shift, self.gate, strict=True):
            mask = torch.full_like(z, 0.5)
            if generator is not None:
                uniform = torch.rand(z.shape, generator=generator, device=generator.device)
                mask = (uniform < 0.5).to(z)
            h = hidden(mask * z).tanh()
            g = gate(h).sigmoid()
            z = mask * z + (1 - mask) * (g * z + (1 - g) * shift(h))
            log_det = log_det + ((1 - mask) * g.log()).sum(-1)
        return z, log_det


class FlowPosterior(WeightPosterior):
    r"""``W | z ~ N(z ∘ M, sigma**2)`` with one factor z for each unit, and z from a flow.

    In linear layers z_k multiplies what leaves input k, but not the bias; in convolutions z_j
    multiplies all that leads to channel j, its bias too. The factors begin as ``N(m0, s0**2)``. An
    auxiliary ``r(z | W)`` guesses z from the weights, and the KL has the bound

    .. math:: \mathrm{KL} \le \mathbb{E}_{q(z)} \mathrm{KL}\big(q(W|z) \,\|\, p(W)\big)
              + \mathbb{E}_{q(W, z)} \big[\log q(z) - \log r(z|W)\big]

    r is a Gaussian, at the end of a flow of z, of mean ``b1 * a`` and precision ``exp(b2 * a)``; a
    is the mean of ``c' W`` over the axis that has no factors, or of its tanh for linear layers.
    ``"mean"`` is the path of ``m0`` through the middle of the flow, as published; it is not the
    mean of the distribution.
    """

    def __init__(self, settings: "MNF", weight_shape: tuple[int, ...], bias: bool) -> None:
        super().__init__(weight_shape, bias)
        n_weights = math.prod(weight_shape[1:])
        self._on_inputs = math.prod(weight_shape[2:]) == 1
        n_factors = weight_shape[1] if self._on_inputs else weight_shape[0]
        start = torch.full(self.shape, -18.0)
        start[:, n_weights:] = -9.0  # both as in the public code
        self.log_sigma2 = nn.Parameter(start)
        self._z_start = settings.z_mean
        self.z_mean = nn.Parameter(torch.full((n_factors,), settings.z_mean))
        self.z_log_var = nn.Parameter(torch.full((n_factors,), math.log(0.1)))
        self.flow, self.aux_flow = (
            MaskedRealNVP(n_factors, width, settings.n_flows) for width in settings.widths
        )
        self.aux_in, self.aux_mean, self.aux_precision = (
            nn.Parameter(torch.zeros(n_factors)) for _ in range(3)
        )
        self._generator: Generator | None = None

    @torch.no_grad()
    def reset_parameters(self, mu: Tensor, generator: Generator) -> None:
        for parameter in (self.z_mean, self.aux_in, self.aux_mean, self.aux_precision):
            parameter.copy_(0.1 * standard_normal(parameter.shape, generator, mu))
        self.z_mean += self._z_start
        self.flow.reset_parameters(generator)
        self.aux_flow.reset_parameters(generator)

    def mean(self, mu: Tensor) -> Tensor:
        return self._times(self.flow(self.z_mean, None)[0], mu)

    def sample_weights(self, mu: Tensor, n_samples: int, generator: Generator) -> Tensor:
        z, _ = self.sample_z((n_samples,), generator)
        return noisy(self._times(z, mu), self.log_sigma2.exp().expand(n_samples, -1, -1), generator)

    def per_example(
        self, mu: Tensor, x: Tensor, layer: MatrixLayer, generator: Generator
    ) -> Tensor:
        z, _ = self.sample_z(x.shape[: -layer.unit_dims], generator)
        z = z.view(*z.shape, *[1] * (layer.unit_dims - 1))
        var = layer.activations(x.square(), self.log_sigma2.exp())
        if self._on_inputs:
            return noisy(layer.activations(x * z, mu), var, generator)
        return noisy(layer.activations(x, mu) * z, var, generator)

    def sample_z(self, leading: tuple[int, ...], generator: Generator) -> tuple[Tensor, Tensor]:
        """Factors ``(*leading, D)`` and the log determinants of their flow, ``(*leading,)``."""
        self._generator = generator
        eps = standard_normal((*leading, len(self.z_mean)), generator, self.z_mean)
        return self.flow(self.z_mean + (self.z_log_var / 2).exp() * eps, generator)

    def kl(self, mu: Tensor) -> Tensor:
        """An unbiased estimate of the bound, in nats, from one z by the generator that the layer
        last drew from, else ValueError; it may come out negative."""
        if self._generator is None:
            raise ValueError("the KL is estimated by a draw: run the layer first, not with 'mean'")
        z, log_det = self.sample_z((), self._generator)
        mean = self._times(z, mu)
        sigma2 = self.log_sigma2.exp()
        kl_weights = (sigma2 + mean.square() - 1 - self.log_sigma2).sum() / 2
        entropy = (1 + math.log(2 * math.pi) + self.z_log_var).sum() / 2 + log_det
        return kl_weights - entropy - self._log_aux(z, mean, sigma2)

    def _log_aux(self, z: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        """``log r(z | W)`` at a draw of W, of which only ``c' W`` is drawn: it is Gaussian too."""
        if self._on_inputs:
            mean, var = (m[:, : len(z)].T for m in (mean, var))
        c = self.aux_in
        a = noisy(c @ mean, c.square() @ var, self._generator)
        a = (a.tanh() if self._on_inputs else a).mean()
        end, log_det = self.aux_flow(z, self._generator)
        log_precision = self.aux_precision * a
        error = log_precision.exp() * (end - self.aux_mean * a).square()
        return log_det - (error + math.log(2 * math.pi) - log_precision).sum() / 2

    def _times(self, z: Tensor, mu: Tensor) -> Tensor:
        """The mean matrix given factors ``(..., D)``: ``(..., L, K + 1)``."""
        if not self._on_inputs:
            return z[..., None] * mu
        if self.has_bias:
            z = torch.cat([z, torch.ones_like(z[..., :1])], -1)
        return z[..., None, :] * mu


@dataclass(frozen=True)
class MNF(MatrixFactory):
    """Layer factory of multiplicative normalizing flows (Louizos and Welling, ICML 2017).

    The prior of a weight is N(0, 1). Defaults as in the public code, whose ``logvar_W`` is a log
    *standard deviation*. Lesson 12.

    Each of the two flows, of q and of r, has ``n_flows`` steps (0 leaves Gaussian factors) and a
    hidden width. The means of the factors start at ``z_mean``, give or take 0.1. Published: 0 with
    flows, so that the layer starts as noise around 0, and 1 without.
    """

    n_flows: int = 2
    widths: tuple[int, int] = (50, 100)
    z_mean: float = 0.0
    posterior = FlowPosterior
