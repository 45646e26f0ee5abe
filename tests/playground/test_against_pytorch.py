"""Losses, gradients, draws and steps of the playground are those of the package on equal noise."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from bdl_lessons.evaluation.predictive import mutual_information, predictive_entropy, predictive_var
from bdl_lessons.models import (
    BinaryDropout,
    Deterministic,
    StochasticLayer,
    StructuredDropout,
    VariationalDropout,
    initialise,
    mlp,
)
from bdl_lessons.probability import elbo_loss, gaussian_nll, molchanov_kl

P_DROP = 0.2
N_STEPS = 3
LR = 0.01
close = partial(torch.testing.assert_close, rtol=1e-5, atol=1e-5)

METHODS = {
    "weight_decay": Deterministic,
    "ensemble": Deterministic,
    "dropout": partial(BinaryDropout, p_drop=P_DROP),
    "variational": partial(
        VariationalDropout, alpha_per="unit", init_p_drop=P_DROP, kl=molchanov_kl
    ),
    "structured": partial(StructuredDropout, init_p_drop=P_DROP),
}
CASES = [
    # method, T, task, activation, hidden layers
    ("weight_decay", 0, "curve", "tanh", 1),
    ("ensemble", 0, "classes", "relu", 2),
    ("dropout", 0, "curve", "relu", 2),
    ("dropout", 0, "classes", "tanh", 1),
    ("variational", 0, "curve", "tanh", 2),
    ("variational", 0, "classes", "relu", 1),
    ("structured", 0, "curve", "relu", 1),
    ("structured", 1, "classes", "tanh", 0),
    ("structured", 2, "curve", "tanh", 2),
    ("structured", 8, "classes", "relu", 2),
]
WIDTH = 5
N_TRAIN = 7
TAU = 25.0
KL_WEIGHT = 0.3


class Case:
    """One network of the package and its data, float64, and the same for the playground."""

    def __init__(self, method, n_reflections, task, activation, depth):
        self.generator = torch.Generator().manual_seed(depth + 10 * n_reflections)
        self.is_class = task == "classes"
        n_inputs = 2 if self.is_class else 1
        self.settings = {
            "n_inputs": n_inputs,
            "width": WIDTH,
            "depth": depth,
            "activation": activation,
            "method": method,
            "p_drop": P_DROP,
            "n_reflections": n_reflections,
        }
        noisy = METHODS[method]
        if method == "structured":
            noisy = partial(noisy, n_reflections=n_reflections)
        first = [Deterministic] if depth else []
        methods = [*first, *[noisy] * (depth + 1 - len(first))]
        nonlinearity = {"tanh": nn.Tanh, "relu": nn.ReLU}[activation]
        network = mlp((n_inputs, *[WIDTH] * depth, 1), methods, nonlinearity).double()
        self.network = initialise(network, self.generator)
        self.layers = [module for module in network if isinstance(module, StochasticLayer)]
        for layer in self.layers:
            layer.bias.data += self.normal(layer.bias.shape)
            raw = getattr(layer, "raw_log_alpha", None)
            if raw is not None:  # apart, and some of them beyond both bounds
                raw.data += self.normal(raw.shape)
                raw.data[0] = 0.7
                raw.data[1] = -9.8
        self.x = self.normal((N_TRAIN, n_inputs))
        self.y = self.normal((N_TRAIN, 1))
        if self.is_class:
            self.y = (self.y > 0).double()

    def normal(self, shape):
        return torch.randn(shape, generator=self.generator, dtype=torch.float64)

    def nll(self, output):
        if self.is_class:
            return binary_cross_entropy_with_logits(output, self.y)
        return gaussian_nll(output, self.y, tau=TAU)

    def loss(self, seed):
        """The loss, its data term and its KL under the noise of this seed."""
        generator = torch.Generator().manual_seed(seed)
        nll_mean = self.nll(self.network(self.x, "per_example", generator))
        kl = self.network.kl()
        return elbo_loss(nll_mean, kl, N_TRAIN, KL_WEIGHT), nll_mean, kl

    def noise(self, seed, n_rows=N_TRAIN):
        """What the playground draws for the same factors, and the factors, for every layer."""
        raw = []
        factors = []
        generator = torch.Generator().manual_seed(seed)
        for layer in self.layers:
            if isinstance(layer, Deterministic):
                raw.append(None)
                factors.append(None)
                continue
            state = generator.get_state()
            xi = layer.draw_xi((n_rows, layer.n_units), generator).detach().flatten()
            factors.append(xi)
            if hasattr(layer, "raw_log_alpha"):
                again = torch.Generator()
                again.set_state(state)
                numbers = torch.randn(n_rows * layer.n_units, generator=again, dtype=xi.dtype)
            else:  # a uniform number on the side of keep where the package's mask is
                numbers = torch.where(xi > 0, 0.5 * (1 - P_DROP), 1 - 0.5 * P_DROP)
            raw.append(numbers.tolist())
        return raw, factors

    def parameters(self, of=lambda parameter: parameter):
        """The parameters of every layer by the names of the playground."""
        listed = []
        for layer in self.layers:
            named = {"weight": layer.weight, "bias": layer.bias}
            if hasattr(layer, "raw_log_alpha"):
                named["log_alpha"] = layer.raw_log_alpha
            if hasattr(layer, "vectors"):
                named["vectors"] = layer.vectors
            listed.append({name: of(p).detach().flatten() for name, p in named.items()})
        return listed

    def of_javascript(self):
        """This case as arguments of ``run.js``."""
        layers = [{n: v.tolist() for n, v in layer.items()} for layer in self.parameters()]
        return {"settings": self.settings, "layers": layers}


def gradient(parameter):
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def compare(theirs, ours):
    for their_layer, our_layer in zip(theirs, ours, strict=True):
        assert their_layer.keys() == our_layer.keys()
        for name, values in our_layer.items():
            close(torch.tensor(their_layer[name], dtype=torch.float64), values, msg=name)


@pytest.mark.parametrize("description", CASES, ids=lambda case: "-".join(map(str, case)))
def test_loss_gradients_draws_and_steps_of_adam(run_js, description):
    case = Case(*description)
    noise = [case.noise(seed) for seed in range(N_STEPS)]
    theirs = run_js(
        "train",
        **case.of_javascript(),
        data={
            "x": case.x.flatten().tolist(),
            "y": case.y.flatten().tolist(),
            "is_class": case.is_class,
        },
        noise=[raw for raw, _ in noise],
        objective={"tau": TAU, "kl_weight": KL_WEIGHT},
        lr=LR,
        n_steps=N_STEPS,
    )
    loss, nll_mean, kl = case.loss(seed=0)
    for name, value in {"loss": loss, "nll_mean": nll_mean, "kl": kl}.items():
        close(torch.tensor(theirs["losses"][name], dtype=torch.float64), value.detach())
    for their_factors, ours in zip(theirs["factors"], noise[0][1], strict=True):
        assert (their_factors is None) == (ours is None)
        if ours is not None:
            close(torch.tensor(their_factors, dtype=torch.float64), ours)
    loss.backward()
    compare(theirs["gradients"], case.parameters(of=gradient))
    optimizer = torch.optim.Adam(case.network.parameters(), lr=LR)
    for seed in range(N_STEPS):
        optimizer.zero_grad()
        case.loss(seed)[0].backward()
        optimizer.step()
    compare(theirs["trained"], case.parameters())


@pytest.mark.parametrize("description", CASES, ids=lambda case: "-".join(map(str, case)))
def test_one_function_at_many_inputs(run_js, description):
    case = Case(*description)
    raw, _ = case.noise(seed=5, n_rows=1)
    theirs = run_js("sample", **case.of_javascript(), x=case.x.flatten().tolist(), noise=raw)
    with torch.no_grad():
        ours = case.network(case.x, "shared", torch.Generator().manual_seed(5))
    close(torch.tensor(theirs, dtype=torch.float64), ours.flatten())


@pytest.mark.parametrize("n_reflections", [0, 3])
def test_the_covariance_of_two_factors(run_js, n_reflections):
    case = Case("structured", n_reflections, "curve", "tanh", 1)
    theirs = run_js("covariance", **case.of_javascript())
    close(torch.tensor(theirs, dtype=torch.float64), case.layers[-1].noise_cov().detach().flatten())


def test_a_network_starts_as_the_package_initialises_it(run_js):
    case = Case("dropout", 0, "classes", "relu", 2)
    initialise(case.network, torch.Generator().manual_seed(3))
    generator = torch.Generator().manual_seed(3)
    uniform = [torch.rand(layer.weight.shape, generator=generator) for layer in case.layers]
    flat = torch.cat([numbers.flatten() for numbers in uniform]).tolist()
    compare(run_js("start", settings=case.settings, uniform=flat), case.parameters())


def test_the_summaries_of_the_functions(run_js):
    draws = 3 * torch.randn(9, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    theirs = run_js("summaries", draws=draws.tolist())
    logits = torch.stack([torch.zeros_like(draws), draws], dim=-1)
    ours = {
        "mean": draws.mean(0),
        "std": (predictive_var(draws[..., None], tau=TAU).flatten() - 1 / TAU).sqrt(),
        "probability": draws.sigmoid().mean(0),
        "entropy": predictive_entropy(logits),
        "mutual_information": mutual_information(logits),
    }
    for name, value in ours.items():
        close(torch.tensor(theirs[name], dtype=torch.float64), value, msg=name)
