"""Exercises of lesson 04: the noise assumed, decay of a classifier, the exact KL, lost factors."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from bdl_lessons.exercises.grader import Criterion, Exercise, KnownError, agrees, normals
from bdl_lessons.panels.dropout_prior import exact_kl
from bdl_lessons.probability import dropout_mixture, implied_tau, mixture_kl


def noise_ratio(data_factor: float, keep_before: float, keep_after: float) -> float:
    """By what factor the assumed noise standard deviation changes, at one ``weight_decay``.

    The training set becomes ``data_factor`` times as large, and ``nn.Dropout`` keeps units with
    probability ``keep_after`` instead of ``keep_before``. The prior stays the same.
    """
    return math.sqrt(data_factor * keep_after / keep_before)


def layer_decays(prior_std: float, n_train: int, p_drops: list[float]) -> list[float]:
    """``weight_decay`` of each layer of a classifier, so that all weights have one prior.

    The loss is ``F.cross_entropy`` (a mean over examples), the optimiser SGD. The inputs of layer
    l are dropped by ``nn.Dropout(p_drops[l])``; the prior of each weight is N(0, prior_std^2).
    """
    return [1 / (prior_std**2 * (1 - p_drop) * n_train) for p_drop in p_drops]


def kl_monte_carlo(
    row: Tensor,
    p_drop: float,
    sigma: float,
    length_scale: float,
    n_samples: int,
    generator: torch.Generator,
) -> Tensor:
    """Estimate of KL(q || p) of one row of weights, spikes of width sigma, by sampling from q.

    ``row`` is ``(Q,)``: the row of Theta. Averages log q(w) - log p(w) over ``n_samples`` draws.
    """
    kept = torch.rand(n_samples, 1, generator=generator) < 1 - p_drop
    noise = torch.randn(n_samples, len(row), generator=generator, dtype=row.dtype)
    w = kept * row + sigma * noise
    log_kept = math.log(1 - p_drop) - (w - row).square().sum(1) / (2 * sigma**2)
    log_dropped = math.log(p_drop) - w.square().sum(1) / (2 * sigma**2)
    log_q = torch.logaddexp(log_kept, log_dropped) - len(row) * math.log(sigma)
    log_p = len(row) * math.log(length_scale) - length_scale**2 * w.square().sum(1) / 2
    return (log_q - log_p).mean()  # the terms with 2 pi cancel


def minibatch_loss(output: Tensor, y: Tensor, kl: Tensor, tau: float, n_train: int) -> Tensor:
    """Estimate of -ELBO / (tau N), up to a constant, from a minibatch of B examples.

    ``output`` and ``y`` are ``(B, Q)``; ``kl`` is the KL divergence of all weights, in nats.
    """
    return 0.5 * (y - output).square().sum(1).mean() + kl / (tau * n_train)


_normal = normals(4)
_X = _normal(7, 5)
_OUTPUT = _normal(6, 3)
_Y = _normal(6, 3)
_LABELS = torch.tensor([0, 2, 1, 1, 0, 2, 2])
_LAYERS = (_normal(4, 5), _normal(3, 4))
_MASKS = ((_normal(7, 5) > -0.8).double(), (_normal(7, 4) > 0).double())
_P_DROPS = [0.2, 0.5]
_KL = torch.tensor(41.0, dtype=torch.float64)
_ROW = torch.tensor([0.45, -0.2, 0.36], dtype=torch.float64)


def _measured_ratio(data_factor: int, keep_before: float, keep_after: float) -> float:
    """The ratio by the package, for a weight decay of 1e-4 and 250 examples before."""

    def tau(n_train: int, keep: float) -> float:
        return implied_tau(
            decay=1e-4,
            length_scale=1.0,
            n_train=n_train,
            p_drop=1 - keep,
            data_term="mse",
            scaling="inverted",
        )

    return math.sqrt(tau(250, keep_before) / tau(250 * data_factor, keep_after))


def _step_of_sgd(answer) -> Tensor:
    """Gradient plus decay, less the gradient of -ELBO / N: for both layers, zero if they agree."""

    def cross_entropy(layers, noise):
        h = torch.relu((_X * noise[0]) @ layers[0].mT) * noise[1]
        return F.cross_entropy(h @ layers[1].mT, _LABELS)

    prior_std = 0.3
    keeps = [1 - p_drop for p_drop in _P_DROPS]
    stored = [layer.clone().requires_grad_() for layer in _LAYERS]

    inverted_masks = [mask / keep for mask, keep in zip(_MASKS, keeps, strict=True)]
    loss_gradients = torch.autograd.grad(cross_entropy(stored, inverted_masks), stored)
    decays = answer(prior_std, len(_X), _P_DROPS)

    thetas = [layer / keep for layer, keep in zip(stored, keeps, strict=True)]
    weighted = zip(keeps, thetas, strict=True)
    kl = sum(keep * (theta**2).sum() / (2 * prior_std**2) for keep, theta in weighted)
    elbo_gradients = torch.autograd.grad(cross_entropy(thetas, _MASKS) + kl / len(_X), stored)

    differences = [
        loss_gradient + decay * layer - elbo_gradient
        for loss_gradient, decay, layer, elbo_gradient in zip(
            loss_gradients, decays, _LAYERS, elbo_gradients, strict=True
        )
    ]
    return torch.cat([difference.flatten() for difference in differences])


def _ratio_of_decays(answer) -> float:
    """The decay at keep = 1/4 over that at keep = 1."""
    undropped, dropped = answer(1.0, 9, [0.0, 0.75])
    return dropped / undropped


def _estimate(
    answer,
    p_drop: float,
    sigma: float,
    row: Tensor = _ROW,
    length_scale: float = 3.5,
    n_samples: int = 1000,
) -> Tensor:
    generator = torch.Generator().manual_seed(11)
    return answer(row, p_drop, sigma, length_scale, n_samples, generator)


def _estimates(answer) -> list[Tensor]:
    """Three settings in which the known errors differ: apart, overlapping, a wide prior.

    All but one are below 30 nats; that one is huge, and how huge depends on the draws.
    """
    apart = _estimate(answer, 0.2, 0.003, n_samples=16_000)
    overlapping = _estimate(answer, 0.6, 0.15, row=0.7 * _ROW, n_samples=16_000)
    wide_prior = _estimate(answer, 0.3, 0.04, length_scale=0.8, n_samples=16_000)
    return [torch.as_tensor(kl).clamp(-30, 30) for kl in (apart, overlapping, wide_prior)]


def _separated(p_drop: float, sigma: float, row: Tensor = _ROW) -> Tensor:
    """Formula (25) for the length scale 3.5."""
    probs, means = dropout_mixture(row[:, None], p_drop)
    return mixture_kl(probs, means, var=sigma**2, prior_var=3.5**-2)


def _kl_with_drawn_spike(row, p_drop, sigma, length_scale, n_samples, generator) -> Tensor:
    """With log q(w) replaced by the log density of the spike that w was drawn from, exactly."""
    second_moment = (1 - p_drop) * row @ row + len(row) * sigma**2
    constants = len(row) * (0.5 + math.log(sigma * length_scale))
    return length_scale**2 / 2 * second_moment - constants


def _kl_with_mean_of_logs(row, p_drop, sigma, length_scale, n_samples, generator) -> Tensor:
    """With log q(w) replaced by the mean of the spikes' log densities, by their probabilities."""
    kept = torch.rand(n_samples, 1, generator=generator) < 1 - p_drop
    noise = torch.randn(n_samples, len(row), generator=generator, dtype=row.dtype)
    w = kept * row + sigma * noise
    log_kept = -(w - row).square().sum(1) / (2 * sigma**2)
    log_dropped = -w.square().sum(1) / (2 * sigma**2)
    log_q = (1 - p_drop) * log_kept + p_drop * log_dropped - len(row) * math.log(sigma)
    log_p = len(row) * math.log(length_scale) - length_scale**2 * w.square().sum(1) / 2
    return (log_q - log_p).mean()


def _entropy(p_drop: float) -> float:
    keep = 1 - p_drop
    return -p_drop * math.log(p_drop) - keep * math.log(keep)


def _loss_differences(answer) -> Tensor:
    """What the data and the KL change in the loss; constants drop out."""
    tau = 0.2
    n_train = 60
    perfect = answer(_Y, _Y, 0 * _KL, tau, n_train)
    with_errors = answer(_OUTPUT, _Y, 0 * _KL, tau, n_train)
    with_kl = answer(_Y, _Y, _KL, tau, n_train)
    return torch.stack([with_errors - perfect, with_kl - perfect])


def _sum_over_minibatches(answer) -> Tensor:
    """The losses of three minibatches of two examples, added."""
    minibatches = zip(_OUTPUT.split(2), _Y.split(2), strict=True)
    return sum(answer(output, y, _KL, 2.0, 6) for output, y in minibatches)


EXERCISES = (
    Exercise(
        number="04.1",
        title="predict the noise that is assumed",
        solution=noise_ratio,
        probe=lambda answer: [answer(9, 0.5, 0.8), answer(2, 0.9, 0.3), answer(1, 0.4, 0.7)],
        criteria=(
            Criterion(
                "sixteen times the data, as measured",
                agrees(
                    lambda answer: answer(16, 0.8, 0.8),
                    lambda answer: _measured_ratio(16, 0.8, 0.8),
                ),
                advice="solve (21) for tau: how does 1/sqrt(tau) change if only N does?",
            ),
            Criterion(
                "keep 0.25 instead of 1, as measured",
                agrees(
                    lambda answer: answer(1, 1.0, 0.25),
                    lambda answer: _measured_ratio(1, 1.0, 0.25),
                ),
                advice="solve (21) for tau: how does 1/sqrt(tau) change if only keep does?",
            ),
            Criterion(
                "both at once, as measured",
                agrees(
                    lambda answer: answer(9, 0.5, 0.8),
                    lambda answer: _measured_ratio(9, 0.5, 0.8),
                ),
                advice="put both changes into (21)",
            ),
            Criterion(
                "there and back again changes nothing",
                agrees(lambda answer: answer(4, 0.5, 0.9) * answer(0.25, 0.9, 0.5), 1.0),
                advice="undoing both changes must undo the factor",
            ),
        ),
        known_errors=(
            KnownError(
                lambda data_factor, keep_before, keep_after: data_factor * keep_after / keep_before,
                diagnosis=(
                    "this is the factor of the variance 1/tau. A standard deviation is its square "
                    "root."
                ),
            ),
            KnownError(
                lambda data_factor, keep_before, keep_after: (
                    1 / noise_ratio(data_factor, keep_before, keep_after)
                ),
                diagnosis=(
                    "the other way round: N and keep stand below the line in tau, so the noise "
                    "grows with both."
                ),
            ),
            KnownError(
                lambda data_factor, keep_before, keep_after: math.sqrt(
                    data_factor * keep_before / keep_after
                ),
                diagnosis=(
                    "keep is on the wrong side. That is right for masks of 0 and 1; nn.Dropout "
                    "stores keep · Theta."
                ),
            ),
            KnownError(
                lambda data_factor, keep_before, keep_after: math.sqrt(data_factor),
                diagnosis="keep changed as well, and it stands in tau.",
            ),
        ),
        hints=(
            "Will it be larger or smaller? Solve (21) for tau and see where N and keep stand.",
            "With nn.Dropout, tau is proportional to 1 / (keep N) at a fixed weight_decay. The "
            "noise has the standard deviation 1 / sqrt(tau).",
        ),
        kind="predict",
    ),
    Exercise(
        number="04.2",
        title="one prior for all layers of a classifier",
        solution=layer_decays,
        probe=lambda answer: answer(0.3, 50, _P_DROPS),
        criteria=(
            Criterion(
                "one SGD step with cross-entropy is one step up the ELBO, in both layers",
                agrees(_step_of_sgd, torch.zeros(32)),
                advice=(
                    "compare the gradients of cross_entropy + decay/2 ||V||² and of (22), with "
                    "Theta = V / keep"
                ),
            ),
            Criterion(
                "without dropout it is the decay of MAP",
                agrees(lambda answer: answer(0.5, 40, [0.0]), [0.1]),
                advice="-log p(w) / N is w² / (2 prior_std² N); its gradient is decay · w",
            ),
            Criterion(
                "a prior twice as wide decays a quarter",
                agrees(
                    lambda answer: [4 * decay for decay in answer(0.6, 50, _P_DROPS)],
                    lambda answer: answer(0.3, 50, _P_DROPS),
                ),
                advice="the penalty is proportional to the precision of the prior, 1 / prior_std²",
            ),
            Criterion(
                "more dropout, more decay on the stored weights",
                agrees(_ratio_of_decays, 4.0),
                advice="keep ||Theta||² is ||V||² / keep for the stored weights V = keep · Theta",
            ),
        ),
        known_errors=(
            KnownError(
                lambda prior_std, n_train, p_drops: [
                    (1 - p_drop) / (prior_std**2 * n_train) for p_drop in p_drops
                ],
                diagnosis=(
                    "keep stands above the line: right for masks of 0 and 1, but nn.Dropout stores "
                    "keep · Theta."
                ),
            ),
            KnownError(
                lambda prior_std, n_train, p_drops: [
                    decay / 2 for decay in layer_decays(prior_std, n_train, p_drops)
                ],
                diagnosis=(
                    "this is lambda. weight_decay is 2 lambda, because the gradient of lambda "
                    "||V||² is 2 lambda V."
                ),
            ),
            KnownError(
                lambda prior_std, n_train, p_drops: layer_decays(1 / prior_std, n_train, p_drops),
                diagnosis="prior_std² stands above the line. A narrow prior must decay more.",
            ),
            KnownError(
                lambda prior_std, n_train, p_drops: layer_decays(prior_std, 1, p_drops),
                diagnosis=(
                    "cross_entropy is a mean over examples, so the KL must be divided by N as well."
                ),
            ),
            KnownError(
                lambda prior_std, n_train, p_drops: layer_decays(
                    prior_std, n_train, [0] * len(p_drops)
                ),
                diagnosis="keep is missing: each layer has its own.",
            ),
        ),
        hints=(
            "Start from (22). What is l² in terms of prior_std, and what is Theta in terms of the "
            "stored weights?",
            "keep l²/(2N) ||Theta||² = l²/(2 N keep) ||V||², and SGD adds the gradient of "
            "decay/2 ||V||².",
        ),
        kind="derive",
    ),
    Exercise(
        number="04.3",
        title="the exact KL, by sampling",
        solution=kl_monte_carlo,
        probe=_estimates,
        probe_atol=0.1,  # 5 standard errors of a difference
        criteria=(
            Criterion(
                "spikes apart: it is formula (25)",
                agrees(
                    lambda answer: _estimate(answer, 0.2, 0.001),
                    _separated(0.2, 0.001),
                    atol=0.305,  # 5 standard errors, here and below
                ),
                advice="compare your terms with (25), which is exact here: which of them differs?",
            ),
            Criterion(
                "spikes on each other: one Gaussian, so (25) lacks H(p_drop)",
                agrees(
                    lambda answer: _estimate(answer, 0.5, 0.1, row=0.001 * _ROW),
                    _separated(0.5, 0.1, row=0.001 * _ROW) + _entropy(0.5),
                    atol=0.17,
                ),
                advice=(
                    "here q is one Gaussian, up to 1e-3: what are its KL and your estimate, term "
                    "by term?"
                ),
            ),
            Criterion(
                "spikes that overlap in part: what quadrature gives",
                agrees(
                    lambda answer: _estimate(answer, 0.5, 0.2, row=_ROW[:1]),
                    float(exact_kl(theta=0.45, p_drop=0.5, length_scale=3.5, sigma=0.2)),
                    atol=0.14,
                ),
                advice="plot your log q(w) for one weight: does exp(log q) integrate to 1?",
            ),
        ),
        known_errors=(
            KnownError(
                lambda row, p_drop, sigma, length_scale, n_samples, generator: sum(
                    kl_monte_carlo(entry, p_drop, sigma, length_scale, n_samples, generator)
                    for entry in row.split(1)
                ),
                diagnosis=(
                    "every entry has a coin of its own. A dropped unit takes its whole row along: "
                    "one coin for each draw."
                ),
            ),
            KnownError(
                _kl_with_drawn_spike,
                diagnosis=(
                    "this is the density of the spike that w was drawn from, without its "
                    "probability. q(w) is the sum over both spikes."
                ),
            ),
            KnownError(
                _kl_with_mean_of_logs,
                diagnosis=(
                    "this is a weighted mean of the logarithms of both spikes. q(w) is a weighted "
                    "sum of their densities: the logarithm comes last (torch.logaddexp)."
                ),
            ),
            KnownError(
                lambda row, p_drop, sigma, length_scale, n_samples, generator: (
                    -kl_monte_carlo(row, p_drop, sigma, length_scale, n_samples, generator)
                ),
                diagnosis="the sign: KL(q || p) averages log q - log p.",
            ),
            KnownError(
                lambda row, p_drop, sigma, length_scale, n_samples, generator: kl_monte_carlo(
                    row, p_drop, sigma, 1 / length_scale, n_samples, generator
                ),
                diagnosis="the prior has standard deviation 1 / length_scale.",
            ),
            KnownError(
                lambda row, p_drop, sigma, length_scale, n_samples, generator: kl_monte_carlo(
                    row, 1 - p_drop, sigma, length_scale, n_samples, generator
                ),
                diagnosis="p_drop and keep are swapped.",
            ),
            KnownError(
                lambda row, p_drop, sigma, length_scale, n_samples, generator: (
                    kl_monte_carlo(row, p_drop, sigma, length_scale, n_samples, generator)
                    + len(row) * math.log(sigma)
                ),
                diagnosis="log N(w; m, sigma²) contains -log sigma for each entry of w.",
            ),
            KnownError(
                lambda row, p_drop, sigma, length_scale, n_samples, generator: (
                    kl_monte_carlo(row, p_drop, sigma, length_scale, n_samples, generator)
                    + len(row) * math.log(length_scale)
                ),
                diagnosis="log p(w) contains +log length_scale for each entry of w.",
            ),
            KnownError(
                lambda row, p_drop, sigma, length_scale, n_samples, generator: (
                    kl_monte_carlo(row, p_drop, sigma, length_scale, n_samples, generator)
                    + len(row) * math.log(sigma * length_scale)
                ),
                diagnosis=(
                    "both densities lack the factor in front of the exponential: -log sigma in log "
                    "q and +log length_scale in log p, for each entry of w."
                ),
            ),
        ),
        hints=(
            "KL(q || p) is the mean of log q(w) - log p(w) over draws w from q. How do you draw "
            "from (11)?",
            "w = kept * row + sigma * noise, with one coin for each draw; log q(w) is a "
            "torch.logaddexp of two terms.",
            "The terms are log keep + log N(w; row, sigma²) and log p_drop + log N(w; 0, sigma²), "
            "each summed over the entries of w.",
        ),
        kind="extend",
    ),
    Exercise(
        number="04.4",
        title="a minibatch loss with three faults",
        solution=minibatch_loss,
        probe=_loss_differences,
        criteria=(
            Criterion(
                "the data term is half the squared error, summed over outputs",
                agrees(
                    lambda answer: _loss_differences(answer)[0],
                    (_Y - _OUTPUT).square().sum() / 12,
                ),
                advice=(
                    "compare with the first term of (19): its factor, what is summed, what is "
                    "averaged"
                ),
            ),
            Criterion(
                "the KL counts once for the whole training set",
                agrees(lambda answer: _loss_differences(answer)[1], 41 / (0.2 * 60)),
                advice="by (19) the KL is divided by tau N, however large the minibatch is",
            ),
            Criterion(
                "the losses of all minibatches average to that of the training set",
                agrees(
                    _sum_over_minibatches,
                    lambda answer: 3 * answer(_OUTPUT, _Y, _KL, 2.0, 6),
                ),
                advice=(
                    "a minibatch must estimate the loss of all examples: a mean, plus one fixed "
                    "term"
                ),
            ),
        ),
        known_errors=(
            KnownError(
                lambda output, y, kl, tau, n_train: F.mse_loss(output, y) + kl / (tau * n_train),
                diagnosis="the KL is mended. Now compare mse_loss with the first term of (19).",
            ),
            KnownError(
                lambda output, y, kl, tau, n_train: (
                    0.5 * F.mse_loss(output, y) + kl / (tau * n_train)
                ),
                diagnosis="mse_loss averages over the outputs as well; (19) has their sum.",
            ),
            KnownError(
                lambda output, y, kl, tau, n_train: minibatch_loss(output, y, kl, tau, len(y)),
                diagnosis=(
                    "the KL is divided by the size of the minibatch: it counts N/B times in an "
                    "epoch."
                ),
            ),
            KnownError(
                lambda output, y, kl, tau, n_train: (
                    tau * minibatch_loss(output, y, kl, tau, n_train)
                ),
                diagnosis=(
                    "this is -ELBO / N. It has the same minimum, but the task asks for -ELBO / "
                    "(tau N)."
                ),
            ),
        ),
        hints=(
            "Write (19) for one minibatch: which term depends on it, and which does not?",
            "Replace mse_loss by the mean over examples of half the squared norm.",
        ),
        kind="debug",
    ),
)
