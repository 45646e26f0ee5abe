"""What the package computes, at its smallest, for a device and a generator that are given.

The tests of this folder run all of it on a simulated GPU, ``make test-gpu`` on a real one beside
the CPU; lessons, with their scores, and trials of the reproductions run there too. A calculation
returns tensors by name; from the same generator they must be the same on every device up to
rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bdl_lessons import evaluation, inference, models, reference
from reproductions import chains, methods, penalties
from reproductions.images.architectures import resnet18
from reproductions.posteriors.slang import fit_slang
from tests.draws import seeded

METHODS = {method.name: method.layer for method in methods.METHODS if method.common_tests}
MODES = ("per_example", "shared", "mean")

Calculation = Callable[[torch.device, torch.Generator], dict[str, Tensor]]


def uniform(shape: tuple[int, ...], on: torch.device, seed: int = 0) -> Tensor:
    """The same numbers on every device, in the default dtype."""
    return torch.rand(shape, generator=seeded(seed)).to(on)


def labels(n: int, on: torch.device) -> Tensor:
    return torch.arange(n, device=on) % 4


def network(method: models.Method, on: torch.device) -> models.Network:
    model = models.initialise(models.mlp((6, 8, 4), method), seeded(1))
    return model.to(on, torch.get_default_dtype())


def layer(method: str, kind: str, mode: str, on: torch.device, g: torch.Generator) -> dict:
    """Output, KL and gradients of a linear or convolutional layer under one of the modes."""
    if kind == "linear":
        inner = nn.Linear(6, 5)
        x = uniform((4, 6), on)
    else:
        inner = nn.Conv2d(2, 3, kernel_size=3, padding=1)
        x = uniform((4, 2, 5, 5), on)
    module = models.initialise(models.Network(METHODS[method](inner)), seeded(1))
    module = module.to(on, torch.get_default_dtype())
    if mode == "mean":  # the KL of MNF is estimated by a draw
        module(x[:1], "shared", g)
    output = module(x, mode, g)
    kl = module.kl()
    loss = output.square().sum() + kl / 10
    loss.backward()
    results = {"output": output.detach(), "kl": kl.detach()}
    for name, parameter in module.named_parameters():
        if parameter.grad is not None:
            results[f"gradient of {name}"] = parameter.grad
    return results


ADAM = inference.adam(1e-2)
TRAINED = (*METHODS, "batched networks", "SLANG")


def steps(name: str, on: torch.device) -> Callable:
    """What trains one of ``TRAINED``: a function of ``n_steps`` and ``generator``."""
    x = uniform((20, 6), on)
    y = labels(20, on)
    if name == "SLANG":
        return partial(fit_slang, network(METHODS["MAP"], on), x, y, cross_entropy)
    if name == "batched networks":
        two = two_networks("VSD, T = 2", on)
        x_of_each = uniform((2, 20, 6), on)
        y_of_each = y.expand(2, 20)
        return partial(
            inference.fit_batched, two, x_of_each, y_of_each, cross_entropy, optimizer=ADAM
        )
    return partial(inference.fit, network(METHODS[name], on), x, y, cross_entropy, optimizer=ADAM)


def two_networks(method: str, on: torch.device) -> inference.BatchedNetworks:
    return inference.BatchedNetworks([network(METHODS[method], on) for _ in range(2)])


def training(method: str, on: torch.device, g: torch.Generator) -> dict[str, Tensor]:
    """Two steps of ``fit``, then ``predict`` in both modes."""
    net = network(METHODS[method], on)
    x = uniform((20, 6), on)
    losses = inference.fit(
        net,
        x,
        labels(20, on),
        cross_entropy,
        n_steps=2,
        batch_size=10,
        optimizer=ADAM,
        generator=g,
    )
    per_example = inference.predict(net, x, 3, "per_example", generator=g)
    shared = inference.predict(net, x, 3, "shared", generator=g)
    return {"losses": losses, "per_example": per_example, "shared": shared}


def batched(method: str, on: torch.device, g: torch.Generator) -> dict[str, Tensor]:
    networks = two_networks(method, on)
    x = uniform((2, 20, 6), on)
    losses = inference.fit_batched(
        networks,
        x,
        labels(20, on).expand(2, 20),
        cross_entropy,
        n_steps=2,
        batch_size=10,
        optimizer=ADAM,
        generator=g,
    )
    draws = inference.predict_batched(networks, x, 2, generator=g)
    return {"losses": losses, "draws": draws}


def residual(on: torch.device, g: torch.Generator) -> dict[str, Tensor]:
    net = models.initialise(resnet18(models.StructuredDropout), seeded(1))
    net = net.to(on, torch.get_default_dtype()).eval()
    x = uniform((2, 3, 32, 32), on)
    results = {mode: net(x, mode, g).detach() for mode in MODES}
    results["kl"] = net.kl().detach()
    return results


def gaussian_process(on: torch.device, g: torch.Generator) -> dict[str, Tensor]:
    x = uniform((12, 1), on).double()
    y = (5 * x[:, 0]).sin()
    results = {}
    for kernel in (reference.ReLUKernel(2), reference.ErfKernel(1), reference.CosKernel(1)):
        gp = reference.GaussianProcess(x, y, kernel, noise_var=0.05).to(on)
        mean, var = gp.fit(3).predict(x + 0.1)
        name = type(kernel).__name__
        results[f"{name} mean"] = mean
        results[f"{name} var"] = var
        results[f"{name} evidence"] = gp.log_evidence()
    return results


def exact_models(on: torch.device, g: torch.Generator) -> dict[str, Tensor]:
    x = uniform((15, 2), on).double()
    y = uniform((15,), on, seed=1).double()
    line = reference.BayesLinear(x, y, noise_var=4.0, prior_var=1.0)
    _, mean_field_var = line.mean_field()
    mean, var = line.predict(x, mean_field_var.diag())
    logistic = reference.BayesLogistic(x, (y > 0.5).double(), 1.0)
    features = reference.RandomFeatures(2, 16, "cos", g, depth=2, device=on)(x)
    return {
        "mean": mean,
        "var": var,
        "evidence": line.log_evidence(),
        "map": logistic.map(),
        "features": features,
    }


def sampling_by_hmc(on: torch.device, g: torch.Generator) -> dict[str, Tensor]:
    def potential(w: Tensor) -> tuple[Tensor, Tensor]:
        return w.square().sum(-1) / 2, w

    draws, _ = reference.hmc(
        potential,
        uniform((3, 2), on).double(),
        n_warmup=5,
        n_draws=12,
        n_leapfrog=5,
        step_size=0.1,
        generator=g,
    )
    return {
        "draws": draws,
        "r_hat": chains.split_r_hat(draws),
        "ess": chains.effective_sample_size(draws),
    }


def gradients_and_curvature(on: torch.device, g: torch.Generator) -> dict[str, Tensor]:
    net = network(models.StructuredDropout, on)
    x = uniform((4, 6), on)
    results = {}
    for estimator in ("local", "per example", "per minibatch", "no noise"):
        results[estimator] = evaluation.noisy_outputs(net, x, estimator, g).detach()
    h = uniform((10, 3), on)
    increase = evaluation.loss_increase(
        lambda h: h.square().sum(), h, torch.eye(3).to(h), n_samples=4, generator=g
    )
    covs = [module.noise_cov().detach() for module in net if hasattr(module, "noise_cov")]
    results["penalties"] = penalties.layer_penalties(net, x, covs).detach()
    results["increase"] = increase.value
    results["variance"] = torch.tensor(evaluation.gradient_variance(results["local"]))
    return results


def _everything() -> Iterator[tuple[str, Calculation]]:
    for method in METHODS:
        for kind in ("linear", "conv2d"):
            for mode in MODES:
                yield f"{method}, {kind}, {mode}", partial(layer, method, kind, mode)
        yield f"{method}, fit and predict", partial(training, method)
        yield f"{method}, batched networks", partial(batched, method)
    for calculation in (
        residual, gaussian_process, exact_models, sampling_by_hmc, gradients_and_curvature,
    ):  # fmt: skip
        yield calculation.__name__.replace("_", " "), calculation


CALCULATIONS = dict(_everything())
"""All calculations by their names."""
