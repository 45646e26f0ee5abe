"""Methods of the UCI experiment that are not one factory under one loss: SWAG and the exact GP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import gpytorch
import torch
from torch import Tensor

from bdl_lessons.experiments.uci_networks import Config, Point, Predict
from bdl_lessons.gp import GaussianProcess
from bdl_lessons.layers import BinaryDropout
from bdl_lessons.members import Members
from bdl_lessons.models import initialise, mlp
from bdl_lessons.noise import standard_normal
from bdl_lessons.swag import fit_swag, predict_swag
from bdl_lessons.train import gaussian_nll, sgd


@dataclass(frozen=True)
class Swag:
    """SWAG over as many steps as the others have: from half of its epochs on it collects.

    Args:
        learning_rate: of descent with momentum 0.9; it falls to ``final_factor`` of it.
    """

    published: str | None
    grid: tuple[Point, ...]
    note: str
    learning_rate: float = 0.05
    final_factor: float = 0.2

    def train(
        self, points: Sequence[Point], x: Tensor, y: Tensor, config: Config, g: torch.Generator
    ) -> Predict:
        """As :meth:`bdl_lessons.experiments.uci_networks.Networks.train`."""
        widths = (x.shape[-1], config["n_hidden"], 1)
        plain = [mlp(widths, BinaryDropout(0.0)).to(g.device) for _ in points]
        members = Members([initialise(network, g) for network in plain])
        steps_an_epoch = max(1, x.shape[1] // config["batch_size"])
        n_epochs = max(4, config["n_steps"] // steps_an_epoch)
        swag = fit_swag(
            members,
            x,
            y[..., None],
            gaussian_nll(1.0),
            kl_weight=torch.tensor([point["kl_weight"] for point in points], device=x.device),
            n_epochs=n_epochs,
            collect_from=n_epochs // 2,
            batch_size=config["batch_size"],
            generator=g,
            optimizer=sgd(self.learning_rate),
            final_factor=self.final_factor,
        )

        def predict(x: Tensor, n_samples: int, generator: torch.Generator) -> Tensor:
            return predict_swag(swag, members, x, n_samples, generator=generator)[..., 0]

        return predict


@dataclass(frozen=True)
class ExactGP:
    """A Gaussian process with one length scale for each feature, fitted by its evidence.

    The draws are of the noise-free function at each row. tau is chosen as for the others: the
    noise of the evidence is not used to predict.

    Args:
        shortest: bound on the length scales, in standard deviations of the inputs. Without it the
            line search tries 1e-6 on features of a few levels. Squared distances are then so large
            that rounding leaves a Gram matrix with negative eigenvalues.
    """

    published: str | None
    grid: tuple[Point, ...]
    note: str
    n_fit: int = 15
    shortest: float = 0.01

    def train(
        self, points: Sequence[Point], x: Tensor, y: Tensor, config: Config, g: torch.Generator
    ) -> Predict:
        """As :meth:`bdl_lessons.experiments.uci_networks.Networks.train`, one after the other."""
        processes = [self._fitted(*rows) for rows in zip(x, y, strict=True)]

        def predict(x: Tensor, n_samples: int, generator: torch.Generator) -> Tensor:
            each = [gp.predict(rows) for gp, rows in zip(processes, x, strict=True)]
            mean, var = (torch.stack(values).float() for values in zip(*each, strict=True))
            eps = standard_normal((n_samples, *mean.shape), generator, mean)
            return mean + var.sqrt() * eps

        return predict

    def _fitted(self, x: Tensor, y: Tensor) -> GaussianProcess:
        bound = gpytorch.constraints.GreaterThan(self.shortest)
        kernel = gpytorch.kernels.RBFKernel(ard_num_dims=x.shape[-1], lengthscale_constraint=bound)
        kernel = gpytorch.kernels.ScaleKernel(kernel)
        kernel.base_kernel.lengthscale = 2.0
        return GaussianProcess(x, y, kernel, noise_var=0.05).to(x.device).fit(self.n_fit)
