"""Normalising flows: bend a simple density by steps whose change of volume is known."""

from __future__ import annotations

import torch
from torch import Tensor, nn

GATE_BIAS = 2.0
"""Where gates start: ``sigmoid(2) = 0.88`` of a number is kept in a step. Published."""


class MaskedRealNVP(nn.Module):
    r"""Steps that move some of D numbers by what the others say.

    A step draws a mask of zeros and ones for every example, with probability 1/2, and with
    :math:`h = \tanh(A (m \circ z) + a)`, shift t = linear(h) and gate g = sigmoid(linear(h)) sets

    .. math:: z' = m \circ z + (1 - m) \circ \big(g \circ z + (1 - g) \circ t\big), \qquad
              \log\Big|\frac{\partial z'}{\partial z}\Big| = \sum_i (1 - m_i) \log g_i .

    The numbers with ``m = 1`` stay, and t and g depend on them alone, so the Jacobian is triangular
    (Dinh, Sohl-Dickstein and Bengio, ICLR 2017; with this gate Louizos and Welling, ICML 2017).
    The densities that follow are those *given the masks*.

    Args:
        dim: D. width: of h. n_steps: 0 is the identity.
    """

    def __init__(self, dim: int, width: int, n_steps: int) -> None:
        super().__init__()
        self.hidden, self.shift, self.gate = (
            nn.ModuleList(nn.Linear(*sizes) for _ in range(n_steps))
            for sizes in ((dim, width), (width, dim), (width, dim))
        )
        self._start_gates()

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator) -> None:
        """Uniform weights of variance 1 / fan_in, biases 0 but for the gates'."""
        for layer in (*self.hidden, *self.shift, *self.gate):
            uniform = torch.rand(layer.weight.shape, generator=generator, device=generator.device)
            layer.weight.copy_((2 * uniform - 1) * (3 / layer.in_features) ** 0.5)
            layer.bias.zero_()
        self._start_gates()

    def forward(self, z: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """``(..., D)`` to ``(..., D)`` and the log determinant ``(...)``.

        Without a generator every mask is 1/2: one path through the middle, not a mean, and its
        log determinant means nothing.
        """
        log_det = torch.zeros_like(z[..., 0])
        for hidden, shift, gate in zip(self.hidden, self.shift, self.gate, strict=True):
            mask = _mask(z, generator)
            h = hidden(mask * z).tanh()
            g = gate(h).sigmoid()
            z = mask * z + (1 - mask) * (g * z + (1 - g) * shift(h))
            log_det = log_det + ((1 - mask) * g.log()).sum(-1)
        return z, log_det

    @torch.no_grad()
    def _start_gates(self) -> None:
        for layer in self.gate:
            layer.bias.fill_(GATE_BIAS)


def _mask(z: Tensor, generator: torch.Generator | None) -> Tensor:
    if generator is None:
        return torch.full_like(z, 0.5)
    uniform = torch.rand(z.shape, generator=generator, device=generator.device)
    return (uniform < 0.5).to(z)
