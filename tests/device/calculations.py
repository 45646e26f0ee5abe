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


def labels(n: int, on: torch.device, n_classes: int = 4) -> Tensor:
    return torch.arange(n, device=on) % n_classes


def network(method: models.Method, on: torch.device) -> models.Network:
    model = models.initialise(models.mlp((6, 8, 4), method), seeded(1))
    return model.to(on, torch.get_default_dtype())


def layer(method: str, kind: str, mode: str, on: torch.device, g: torch.Generator) -> dict:
    """Output, KL and gradients of a linear or convolutional layer under one of the modes."""
    inner = nn.Linear(6, 5) if kind == "linear" else nn.Conv2d(2, 3, kernel_size=3, padding=1)
    module = models.initialise(models.Network(METHODS[method](inner)), seeded(1))
    module = module.to(on, torch.get_default_dtype())
    if mode == "mean":  # the KL of MNF is estimated by a draw
        module(uniform((1, 6) if kind == "linear" else (1, 2, 5, 5), on), "shared", g)
    output = module(uniform((4, 6) if kind == "linear" else (4, 2, 5, 5), on), mode, g)
    kl = module.kl()
    (output.square().sum() + kl / 10).backward()
    learned = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    gradients = {f"gradient of {name}": slope for name, slope in learned.items()}
    return {"output": output.detach(), "kl": kl.detach()} | gradients


def one(method: str, on: torch.device) -> tuple:
    """What ``fit`` asks for, but the steps and the generator; inputs come second."""
    return network(METHODS[method], on), uniform((20, 6), on), labels(20, on), cross_entropy


def many(method: str, on: torch.device) -> tuple:
    """What ``fit_batched`` asks for."""
    networks = inference.BatchedNetworks([network(METHODS[method], on) for _ in range(2)])
    return networks, uniform((2, 20, 6), on), labels(20, on).expand(2, 20), cross_entropy


STEP = {"optimizer": inference.adam(1e-2)}


TRAINED = (*METHODS, "batched networks", "SLANG")


def steps(name: str, on: torch.device) -> Callable:
    """What trains one of ``TRAINED``: a function of ``n_steps`` and ``generator``."""
    if name == "SLANG":
        return partial(fit_slang, *one("MAP", on))
    if name == "batched networks":
        return partial(inference.fit_batched, *many("VSD, T = 2", on), **STEP)
    return partial(inference.fit, *one(name, on), **STEP)


def training(method: str, on: torch.device, g: torch.Generator) -> dict[str, Tensor]:
    """Two steps of ``fit``, then ``predict`` in both modes."""
    net, x, *_ = data = one(method, on)
    found = {"losses": inference.fit(*data, n_steps=2, batch_size=10, generator=g, **STEP)}
    for mode in ("per_example", "shared"):
        found[mode] = inference.predict(net, x, 3, mode, generator=g)
    return found


def batched(method: str, on: torch.device, g: torch.Generator) -> dict[str, Tensor]:
    networks, x, *_ = data = many(method, on)
    losses = inference.fit_batched(*data, n_steps=2, batch_size=10, generator=g, **STEP)
    return {"losses": losses, "draws": inference.predict_batched(networks, x, 2, generator=g)}


def residual(on: torch.device, g: torch.Generator) -> dict[str, Tensor]:
    net = models.initialise(resnet18(models.StructuredDropout), seeded(1))
    net = net.to(on, torch.get_default_dtype()).eval()
    x = uniform((2, 3, 32, 32), on)
    return {mode: net(x, mode, g).detach() for mode in MODES} | {"kl": net.kl().detach()}


def gaussian_process(on: torch.device, g: torch.Generator) -> dict[str, Tensor]:
    x = uniform((12, 1), on).double()
    found = {}
    for kernel in (reference.ReLUKernel(2), reference.ErfKernel(1), reference.CosKernel(1)):
        gp = reference.GaussianProcess(x, (5 * x[:, 0]).sin(), kernel, noise_var=0.05).to(on)
        mean, var = gp.fit(3).predict(x + 0.1)
        name = type(kernel).__name__
        found |= {f"{name} mean": mean, f"{name} var": var, f"{name} evidence": gp.log_evidence()}
    return found


def exact_models(on: torch.device, g: torch.Generator) -> dict[str, Tensor]:
    x = uniform((15, 2), on).double()
    y = uniform((15,), on, 1).double()
    line = reference.BayesLinear(x, y, 4.0, 1.0)
    logistic = reference.BayesLogistic(x, (y > 0.5).double(), 1.0)
    mean, var = line.predict(x, line.mean_field()[1].diag())
    features = reference.RandomFeatures(2, 16, "cos", g, depth=2, device=on)(x)
    found = {"mean": mean, "var": var, "evidence": line.log_evidence()}
    return found | {"map": logistic.map(), "features": features}


def sampling_by_hmc(on: torch.device, g: torch.Generator) -> dict[str, Tensor]:
    def potential(w: Tensor) -> tuple[Tensor, Tensor]:
        return w.square().sum(-1) / 2, w

    options = {"generator": g, "n_leapfrog": 5, "step_size": 0.1}
    draws, _ = reference.hmc(potential, uniform((3, 2), on).double(), 5, 12, **options)
    return {
        "draws": draws,
        "r_hat": chains.split_r_hat(draws),
        "ess": chains.effective_sample_size(draws),
    }


def gradients_and_curvature(on: torch.device, g: torch.Generator) -> dict[str, Tensor]:
    x = uniform((10, 3), on)
    net = network(models.StructuredDropout, on)
    covs = [module.noise_cov().detach() for module in net if hasattr(module, "noise_cov")]
    estimators = ("local", "per example", "per minibatch", "no noise")
    inputs = uniform((4, 6), on)
    outputs = {e: evaluation.noisy_outputs(net, inputs, e, g).detach() for e in estimators}
    increase = evaluation.loss_increase(
        lambda h: h.square().sum(), x, torch.eye(3).to(x), n_samples=4, generator=g
    )
    return outputs | {
        "penalties": penalties.layer_penalties(net, inputs, covs).detach(),
        "increase": increase.value,
        "variance": torch.tensor(evaluation.gradient_variance(outputs["local"])),
    }


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
