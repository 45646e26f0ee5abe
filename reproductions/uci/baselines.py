"""Methods of the UCI experiment that are not one factory under one loss: SWAG, SLANG, the GP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import gpytorch
import torch
from torch import Tensor

from bdl_lessons.core.random import standard_normal
from bdl_lessons.inference import BatchedNetworks, adam, fit_batched, sgd
from bdl_lessons.models import Deterministic, Network, initialise, mlp
from bdl_lessons.probability import gaussian_nll
from bdl_lessons.reference import GaussianProcess
from reproductions.posteriors.slang import LowRankPrecision, fit_slang, predict_slang
from reproductions.posteriors.swag import fit_swag, predict_swag
from reproductions.uci.networks import Config, Method, Point, Predict, cosine, kl_weights_of


@dataclass(frozen=True)
class Swag(Method):
    """SWAG over as many steps as the others have: from half of its epochs on it collects.

    The learning rate of descent with momentum 0.9 falls to a fifth.
    """

    def train(
        self, points: Sequence[Point], x: Tensor, y: Tensor, config: Config, g: torch.Generator
    ) -> Predict:
        members = BatchedNetworks(_plain(x, config, g))
        steps_an_epoch = max(1, x.shape[1] // config["batch_size"])
        n_epochs = max(4, config["n_steps"] // steps_an_epoch)
        swag = fit_swag(
            members,
            x,
            y[..., None],
            partial(gaussian_nll, tau=1.0),
            kl_weight=kl_weights_of(points, x),
            n_epochs=n_epochs,
            collect_from=n_epochs // 2,
            batch_size=config["batch_size"],
            generator=g,
            optimizer=sgd(0.05),
            final_factor=0.2,
        )

        def predict(x: Tensor, n_samples: int, generator: torch.Generator) -> Tensor:
            return predict_swag(swag, members, x, n_samples, generator=generator)[..., 0]

        return predict


@dataclass(frozen=True)
class Slang(Method):
    r"""SLANG for half of the steps, from the MAP weights that Adam reaches in the other half.

    With :math:`\kappa` the ``kl_weight`` of a point, the target is what the loss of the others has
    as its optimum,

    .. math:: \exp\Big(-\frac1{2 \kappa} \sum_n (y_n - f_n)^2\Big)\, \mathcal N(w; 0, I):

    a likelihood with noise variance :math:`\kappa`. The empirical Fisher matrix of SLANG is the
    curvature of that only where the residuals have this variance. Where theirs is larger, it is
    too large by their ratio: q is too narrow, and steps are too short to leave the start.

    Args:
        rank: of the precision. Published for these sets are 1, natural-gradient steps of mostly
            0.01, and four draws in a step.
    """

    rank: int = 5

    def train(
        self, points: Sequence[Point], x: Tensor, y: Tensor, config: Config, g: torch.Generator
    ) -> Predict:
        networks = _plain(x, config, g)
        q = self.posterior(networks, kl_weights_of(points, x), x, y, config, g)

        def predict(x: Tensor, n_samples: int, generator: torch.Generator) -> Tensor:
            return predict_slang(q, networks[0], x, n_samples, generator=generator)[..., 0]

        return predict

    def posterior(
        self,
        networks: Sequence[Network],
        kl_weights: Tensor,
        x: Tensor,
        y: Tensor,
        config: Config,
        g: torch.Generator,
    ) -> LowRankPrecision:
        """The M Gaussians over the weights of M networks; ``kl_weights`` is ``(M,)``."""
        members, n_adam = BatchedNetworks(networks), config["n_steps"] // 2
        how = {"batch_size": min(config["batch_size"], x.shape[1]), "generator": g}
        fit_batched(
            members,
            x,
            y[..., None],
            partial(gaussian_nll, tau=1.0),
            kl_weight=kl_weights,
            n_steps=n_adam,
            sampling="mean",
            optimizer=adam(config["learning_rate"]),
            schedule=cosine(n_adam),
            **how,
        )
        return fit_slang(
            [members.network(member) for member in range(len(members))],
            x,
            y[..., None],
            gaussian_nll,
            nll_args=(1 / kl_weights,),
            n_steps=config["n_steps"] - n_adam,
            rank=self.rank,
            n_samples=2,
            lr=0.02,
            init_precision=100.0,  # near enough to the MAP weights
            **how,
        )


@dataclass(frozen=True)
class ExactGP(Method):
    """A Gaussian process with one length scale for each feature, fitted by its evidence.

    The draws are of the noise-free function at each row. tau is chosen as for the others: the
    noise of the evidence is not used to predict.

    Length scales are at least 0.01 standard deviations of the inputs. Without the bound the line
    search tries 1e-6 on features of a few levels. Squared distances are then so large that rounding
    leaves a Gram matrix with negative eigenvalues.
    """

    def train(
        self, points: Sequence[Point], x: Tensor, y: Tensor, config: Config, g: torch.Generator
    ) -> Predict:
        processes = [self._fitted(*rows) for rows in zip(x, y, strict=True)]

        def predict(x: Tensor, n_samples: int, generator: torch.Generator) -> Tensor:
            each = [gp.predict(rows) for gp, rows in zip(processes, x, strict=True)]
            mean, var = (torch.stack(values).float() for values in zip(*each, strict=True))
            eps = standard_normal((n_samples, *mean.shape), generator, mean)
            return mean + var.sqrt() * eps

        return predict

    def _fitted(self, x: Tensor, y: Tensor) -> GaussianProcess:
        bound = gpytorch.constraints.GreaterThan(0.01)
        kernel = gpytorch.kernels.RBFKernel(ard_num_dims=x.shape[-1], lengthscale_constraint=bound)
        kernel = gpytorch.kernels.ScaleKernel(kernel)
        kernel.base_kernel.lengthscale = 2.0
        return GaussianProcess(x, y, kernel, noise_var=0.05).to(x.device).fit(15)


def _plain(x: Tensor, config: Config, g: torch.Generator) -> list[Network]:
    """A network without noise for each of the M training sets."""
    widths = (x.shape[-1], config["n_hidden"], 1)
    networks = [mlp(widths, Deterministic()).to(g.device) for _ in x]
    return [initialise(network, g) for network in networks]
