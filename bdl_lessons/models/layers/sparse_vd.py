r"""Layers that find out which of their weights matter: sparse variational dropout and ARD.

One posterior, two priors (lesson 08). Every weight is ``w = mu + sigma * eps`` with its own free
``mu`` and ``log_sigma2`` (the additive parametrisation). What decides is its noise relative to its
size,

.. math:: \alpha = \sigma^2 / \mu^2, \qquad \log\alpha = \log\sigma^2 - 2 \log|\mu|,

and under both priors the divergence falls as ``log_alpha`` grows, and depends on nothing else. A
weight that the data do not hold back drifts to a large alpha and can be removed.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from bdl_lessons.core.devices import single
from bdl_lessons.core.validation import bound, number
from bdl_lessons.models.layers.base import WeightNoise, log_relative_variance
from bdl_lessons.probability import molchanov_kl


class SparseVD(WeightNoise):
    """Sparse variational dropout (Molchanov, Ashukha and Vetrov, ICML 2017).

    The prior is log-uniform, ``p(|w|) ~ 1/|w|``.

    Args:
        inner: the ``nn.Linear`` or ``nn.Conv2d``; its weights are the means.
        init_log_sigma2: where the log variances start. Published: -10. Small, because a network
            that starts as noise does not learn.
        log_alpha_clamp: bounds put on ``log_alpha`` *inside the KL*, published (-8, 8); beyond them
            its gradient is 0. ``None``: no bounds, none are needed for stability.
        threshold: train with the means of weights at or above this ``log_alpha`` taken as 0, as the
            authors' code does at 3. No data reach such a ``mu``; only the KL moves it on, towards
            0, and the weight comes back if its variance falls. The KL is that of all weights, so
            the loss is no bound any more. ``None``: every mean counts until pruning.
        weight_kl: the divergence of each weight as a function of ``log_alpha``: the published
            sigmoid, or :func:`~bdl_lessons.probability.loguniform_kl`, exact and slower.

    Raises:
        TypeError, ValueError: if ``init_log_sigma2`` is not finite, the clamp not ``(low, high)``
            or ``threshold`` NaN.

    >>> layer = SparseVD(nn.Linear(3, 2, bias=False), init_log_sigma2=0.0)
    >>> _ = layer.weight.data.fill_(1.0)  # alpha = 1
    >>> round(layer.kl().item() / 6, 3), round(molchanov_kl(torch.zeros(())).item(), 3)
    (0.431, 0.431)
    """

    def __init__(
        self,
        inner: nn.Linear | nn.Conv2d,
        init_log_sigma2: float = -10.0,
        log_alpha_clamp: tuple[float, float] | None = None,
        threshold: float | None = None,
        weight_kl: Callable[[Tensor], Tensor] = molchanov_kl,
    ) -> None:
        super().__init__(inner)
        start = float(number("init_log_sigma2", init_log_sigma2))
        self.log_sigma2 = nn.Parameter(torch.full(inner.weight.shape, start))
        self.log_alpha_clamp = valid_clamp(log_alpha_clamp)
        self.threshold = valid_threshold(threshold)
        self.weight_kl = weight_kl

    @property
    def log_alpha(self) -> Tensor:
        """``log(sigma**2 / mu**2)`` of each weight, in the shape of the weights."""
        return log_relative_variance(self.inner.weight, self.log_sigma2)

    def weight_mean(self) -> Tensor:
        """``mu``, with 0 in place of those at or above the threshold, if there is one."""
        mu = self.inner.weight
        if self.threshold is None:
            return mu
        return mu.masked_fill(self.log_alpha.detach() >= self.threshold, 0.0)

    def weight_var(self) -> Tensor:
        """``sigma**2`` of each weight, in the shape of the weights."""
        return self.log_sigma2.exp()

    def kl(self) -> Tensor:
        """The sum of ``weight_kl`` over the weights, in nats, 0-dim."""
        log_alpha = single(self.log_alpha)
        if self.log_alpha_clamp is not None:
            log_alpha = log_alpha.clamp(*self.log_alpha_clamp)
        return self.weight_kl(log_alpha).sum()


class ARD(SparseVD):
    """Automatic relevance determination (Kharitonov, Molchanov and Vetrov 2018).

    :class:`SparseVD` under another prior: ``N(0, lambda2)``, each weight with its own ``lambda2``
    at its optimum, which makes the divergence :func:`ard_kl`. Arguments and errors are those of
    :class:`SparseVD`.

    >>> layer = ARD(nn.Linear(3, 2), init_log_sigma2=0.0, threshold=3.0)
    >>> _ = layer.weight.data.fill_(0.1)  # log alpha = 4.6: the means count as 0
    >>> layer.weight_mean().abs().sum().item()
    0.0
    """

    def __init__(
        self,
        inner: nn.Linear | nn.Conv2d,
        init_log_sigma2: float = -10.0,
        log_alpha_clamp: tuple[float, float] | None = None,
        threshold: float | None = None,
    ) -> None:
        super().__init__(inner, init_log_sigma2, log_alpha_clamp, threshold, weight_kl=ard_kl)


def ard_kl(log_alpha: Tensor) -> Tensor:
    r"""Divergence of each weight under the best Gaussian prior of its own, in nats.

    ``min over lambda2 of KL(N(mu, sigma2) || N(0, lambda2))`` is reached at
    ``lambda2 = mu**2 + sigma2`` and is :math:`\tfrac12\log(1 + 1/\alpha)
    = -\tfrac12 \log\mathrm{sigmoid}(\log\alpha)`, without any constant (Kharitonov, Molchanov and
    Vetrov 2018).

    >>> ard_kl(torch.tensor([-4.0, 0.0, 4.0])).round(decimals=3)
    tensor([2.0090, 0.3470, 0.0090])
    """
    return -logsigmoid(log_alpha) / 2


def valid_clamp(clamp: tuple[float, float] | None) -> tuple[float, float] | None:
    """``(low, high)`` or None, else TypeError or ValueError."""
    if clamp is None:
        return None
    if not (isinstance(clamp, tuple | list) and len(clamp) == 2):
        raise TypeError(f"log_alpha_clamp must be None or (low, high), got {clamp!r}")
    if not bound("log_alpha_clamp", clamp[0]) < bound("log_alpha_clamp", clamp[1]):
        raise ValueError(f"log_alpha_clamp must be None or (low, high), got {clamp}")
    return clamp


def valid_threshold(threshold: float | None) -> float | None:
    """A number, infinity among them, or None, else TypeError or ValueError."""
    return None if threshold is None else bound("threshold", threshold)
