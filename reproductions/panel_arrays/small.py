"""Trainings of a page or less, for the panels of lessons 00, 01, 05, 07 and 08."""

from collections.abc import Callable
from functools import partial
from math import nan

import numpy as np
import torch
from sklearn.datasets import make_moons
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch.nn.utils import parameters_to_vector

from bdl_lessons import models
from bdl_lessons.datasets import digits, rotated
from bdl_lessons.evaluation import mutual_information, predictive_entropy
from bdl_lessons.inference import BatchedNetworks, adam, fit_batched, layer_log_alpha, predict
from bdl_lessons.inference.train import Run, optimize
from bdl_lessons.models import ARD, Deterministic, Method, Network, SparseVD, initialise, mlp
from bdl_lessons.panels import (
    dropout_rate,
    many_networks,
    mc_dropout_co2,
    pruning_threshold,
    rotated_digit,
)
from bdl_lessons.probability import gaussian_nll, kl_warmup
from reproductions.mc_dropout import switch_inside_the_data
from reproductions.measure import train_by

Arrays = dict[str, np.ndarray]


def make_many_networks(n_networks: int = 20, n_steps: int = 500) -> Arrays:
    """Lesson 00: twenty networks, trained on the same points from different initial weights.

    The points, their classes, and the logits of each network on a square grid (column, row).
    """
    torch.manual_seed(0)
    corners = torch.tensor([[-2.0, 2.0], [2.0, -2.0], [2.0, 2.0], [-2.0, -2.0]])
    x = (corners[:, None] + 0.35 * torch.randn(4, 10, 2)).flatten(0, 1)
    y = torch.arange(40).ge(20).float()
    axis = torch.tensor(many_networks.AXIS).float()
    logits = []
    for seed in range(n_networks):
        torch.manual_seed(seed)
        net = nn.Sequential(
            nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1)
        )
        optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
        for _ in range(n_steps):
            loss = binary_cross_entropy_with_logits(net(x)[:, 0], y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        logits.append(net(torch.cartesian_prod(axis, axis)).view(len(axis), -1).detach())
    return {"x": x.numpy(), "y": y.numpy(), "logits": torch.stack(logits).half().numpy()}


def make_dropout_rate(n_steps: int = 4000) -> Arrays:
    """Lesson 01: a classifier with ten hidden units on two moons for each dropout rate.

    All are trained in one batch; data and weights. Masks are fresh for every example and step;
    nothing is rescaled (classic dropout), so weight scaling at prediction multiplies the hidden
    units by keep.
    """
    x, y = make_moons(80, noise=0.22, random_state=3)
    generator = torch.Generator().manual_seed(0)
    rates = dropout_rate.RATES
    n_hidden = dropout_rate.N_HIDDEN
    inputs = torch.from_numpy(x)
    labels = torch.from_numpy(y).double()
    keep = 1 - torch.tensor(rates, dtype=torch.float64)[:, None, None]

    def start(*shape: int, scale: float) -> Tensor:
        draw = torch.randn(*shape, generator=generator, dtype=torch.float64) * scale
        return draw.expand(len(rates), *shape).clone().requires_grad_()

    w1 = start(2, n_hidden, scale=1.5)
    b1 = start(1, n_hidden, scale=0.5)
    w2 = start(n_hidden, 1, scale=0.5)
    b2 = start(1, 1, scale=0.0)

    def loss_at(_: int) -> Tensor:
        uniforms = torch.rand(1, len(x), n_hidden, generator=generator, dtype=torch.float64)
        hidden = torch.tanh(inputs @ w1 + b1) * (uniforms < keep)
        logits = (hidden @ w2 + b2).squeeze(-1)
        return len(rates) * binary_cross_entropy_with_logits(logits, labels.expand_as(logits))

    decayed = partial(torch.optim.Adam, lr=0.02, weight_decay=1e-4)
    run = Run(n_steps, epoch=1, kl_weight=0.0, nll=binary_cross_entropy_with_logits)
    optimize([w1, b1, w2, b2], loss_at, run, decayed, schedule=None, progress=True)
    weights = {"w1": w1, "b1": b1, "w2": w2, "b2": b2}
    uniforms = torch.rand(n_hidden, generator=generator.manual_seed(12), dtype=torch.float64)
    made = {name: weight.detach().numpy() for name, weight in weights.items()}
    return {"x": x, "y": y, "uniforms": uniforms.numpy()} | made


def make_mc_dropout_co2(n_steps: int = 6000) -> Arrays:
    """Lesson 05: ReLU networks with dropout on six years of CO2, one for each rate.

    100 functions of each on a grid of times, and the weights of the two networks that the lesson
    itself evaluates: the ReLU network at its rate and one with tanh.
    """
    panel = mc_dropout_co2
    data = mc_dropout_co2.six_years()
    x = torch.linspace(data.x.min(), data.to_x(torch.tensor(panel.HORIZON)), 180)
    cases = [*((rate, nn.ReLU) for rate in panel.RATES), (panel.LESSON_RATE, nn.Tanh)]
    training = {"learning_rate": 3e-3, "batch_size": None}
    draws = []
    weights = {}
    for p_drop, activation in cases:
        generator = torch.Generator().manual_seed(3)
        net = panel.network(p_drop, activation)
        initialise(net, generator, weight_var=2.0 if activation is nn.ReLU else 1.0)
        place, steepness, sign = torch.rand(3, panel.WIDTH, generator=generator)
        switch_inside_the_data(net[0], 2.0, steepness, sign, place)
        train_by(
            training,
            net,
            data.x.float(),
            data.y.float()[:, None],
            generator,
            n_steps,
            loss=partial(gaussian_nll, tau=25.0),
            schedule=lambda step: 1 - step / n_steps,
        )
        if p_drop == panel.LESSON_RATE:
            flat = parameters_to_vector(net.parameters())
            weights[activation.__name__] = flat.detach().half().numpy()
        if activation is nn.ReLU:
            draws.append(predict(net, x[:, None], 100, "shared", generator=generator)[..., 0])
    return {"x": x.double().numpy(), "draws": torch.stack(draws).half().numpy(), **weights}


def make_rotated_digit(n_steps: int = 1500, n_draws: int = rotated_digit.MANY_SAMPLES) -> Arrays:
    """Lesson 05: digit classifiers with dropout, one for each rate; what they say of a turned 1.

    Logits of 100 draws at every angle, the predictive entropy and the mutual information of
    ``n_draws``, ``(rates, angles)`` each, and the weights of the network that the lesson evaluates.
    """
    panel = rotated_digit
    data = digits(seed=0)
    ones = panel.the_one().expand(len(panel.ANGLES), 8, 8)
    turned = rotated(ones, torch.tensor(panel.ANGLES)).flatten(1)
    training = {"learning_rate": 2e-3, "batch_size": 100}
    draws = []
    stored = {}
    for p_drop in panel.RATES:
        generator = torch.Generator().manual_seed(2)
        net = initialise(panel.classifier(p_drop), generator)
        train_by(training, net, data.x_train, data.y_train, generator, n_steps)
        draws.append(predict(net, turned, n_draws, "per_example", generator=generator))
        if p_drop == panel.LESSON_RATE:
            stored["weights"] = parameters_to_vector(net.parameters()).detach().half()
    for name, of in (("entropy", predictive_entropy), ("information", mutual_information)):
        stored[name] = torch.stack([*map(of, draws)])
    few = [logits[: panel.N_SAMPLES].transpose(0, 1) for logits in draws]
    stored["logits"] = torch.stack(few).half()
    return {name: values.numpy() for name, values in stored.items()}


NOISE_SETTINGS = {  # width, and the part of the training labels that is replaced by random ones
    "16 units": (16, 0.0),
    "96 units, noisy labels": (96, 0.3),
}
SEEDS = 15
STEPS = (1000, 2000, 4000)
N_TRAIN, N_VALIDATION, N_TEST = 1000, 397, 400
METHODS: dict[str, Callable[[float], Method]] = {
    "none": lambda _: Deterministic,
    "prior": lambda length_scale: partial(Deterministic, length_scale=length_scale),
    "Gaussian A": lambda p_drop: partial(models.GaussianDropout, p_drop=p_drop),
    "variational A": lambda p_drop: partial(models.VariationalDropout, init_p_drop=p_drop),
    "concrete": lambda p_drop: partial(models.ConcreteDropout, init_p_drop=p_drop),
}
LEARNED = ("variational A", "concrete")
CASES = [  # method, and its p_drop, start of p_drop or length-scale
    ("none", 0.0),
    *(("prior", length_scale) for length_scale in (0.5, 1.0, 2.0, 4.0, 8.0)),
    *(("Gaussian A", p_drop) for p_drop in (0.02, 0.05, 0.1, 0.2, 0.5)),
    *((method, p_drop) for method in LEARNED for p_drop in (0.02, 0.1, 0.5)),
]


def make_dropout_by_width() -> Arrays:
    """Lesson 07: fixed noise, and noise learned from several starts, on the 8x8 digits.

    Narrow networks with two hidden layers, and wide ones with noisy labels; all layers have one
    rate or start. The rivals have no noise, and no noise but the prior of concrete dropout.
    ``error``, ``(setting, case, step, 2, seed)``, in per cent of the validation and of the test
    digits; ``alpha``, ``(setting, case, step, seed, layer)``: NaN where nothing is learned. The
    cases are ``methods`` and ``numbers``, ``settings`` what they were tried on.
    """
    methods, numbers = zip(*CASES, strict=True)
    runs = [[train_noise(*case, setting) for case in CASES] for setting in NOISE_SETTINGS]
    named = {"settings": list(NOISE_SETTINGS), "methods": methods, "numbers": numbers}
    return {name: np.array(values) for name, values in named.items()} | {
        name: np.array([[run[name] for run in of_setting] for of_setting in runs], np.float32)
        for name in ("error", "alpha")
    }


def train_noise(method: str, number: float, setting: str, steps: tuple[int, ...] = STEPS) -> Arrays:
    """Train one network for each seed; the optimizer starts again after each of ``steps``."""
    width, label_noise = NOISE_SETTINGS[setting]
    x, y, x_held, y_held = noisy_splits(label_noise)
    generator = torch.Generator().manual_seed(0)
    made = [
        initialise(mlp((64, width, width, 10), METHODS[method](number)), generator)
        for _ in range(SEEDS)
    ]
    networks = BatchedNetworks(made)
    done = 0
    error = []
    alpha = []
    for step in steps:
        fit_batched(
            networks,
            x,
            y,
            cross_entropy,
            n_steps=step - done,
            batch_size=100,
            optimizer=adam(3e-3),
            kl_weight=1.0 if method in (*LEARNED, "prior") else 0.0,
            generator=generator,
        )
        done = step
        with torch.no_grad():
            wrong = (networks(x_held, "mean").argmax(-1) != y_held).double()
        halves = wrong.split([N_VALIDATION, N_TEST], 1)
        error.append(torch.stack([100 * part.mean(1) for part in halves]))
        layers = [[*networks.network(i)][::2] for i in range(SEEDS)]  # ReLUs are between them
        learned = method in LEARNED
        alpha.append([[part.alpha.item() if learned else nan for part in net] for net in layers])
    return {"error": torch.stack(error).numpy(), "alpha": np.array(alpha)}


def noisy_splits(label_noise: float) -> list[Tensor]:
    """x, y and x, y of what is held out, first axis the seed; some training labels are random."""
    parts = [digits(N_TRAIN, N_VALIDATION + N_TEST, seed) for seed in range(SEEDS)]
    rows = ((data.x_train, data.y_train, data.x_test, data.y_test) for data in parts)
    x, y, x_held, y_held = map(torch.stack, zip(*rows, strict=True))
    generator = torch.Generator().manual_seed(1)
    replaced = torch.rand(y.shape, generator=generator) < label_noise
    y = torch.where(replaced, torch.randint(10, y.shape, generator=generator), y)
    return [x, y, x_held, y_held]


def make_pruning_threshold(n_steps: int = 3000) -> Arrays:
    """Lesson 08: networks 64-50-10 with one noise variance for each weight, on the digits.

    Two priors on the true labels, one of them again on random labels, and an ordinary network for
    the first figure of the lesson.
    """
    data = digits(seed=0)
    generator = torch.Generator()
    random = torch.randint(10, data.y_train.shape, generator=generator.manual_seed(5))
    sparse_vd = partial(SparseVD, init_log_sigma2=-6.0)
    ard = partial(ARD, init_log_sigma2=-6.0)
    tasks = {"sparse VD": (sparse_vd, data.y_train), "ARD": (ard, data.y_train)}
    tasks |= {"sparse VD, random labels": (sparse_vd, random)}
    ordinary = partial(Deterministic, length_scale=0.1), data.y_train

    def train(method: Method, y: Tensor) -> Network:
        """The KL's weight rises to 1 over the first quarter of the steps."""
        start = generator.manual_seed(0)
        net = initialise(mlp((64, pruning_threshold.WIDTH, 10), method), start)
        training = {"learning_rate": 1e-2, "batch_size": 100}
        train_by(
            training,
            net,
            data.x_train,
            y,
            start,
            n_steps,
            schedule=lambda step: min(1, 2 - 2 * step / n_steps),
            kl_weight=kl_warmup(n_steps / 4),
        )
        return net

    nets = [train(*tasks[name]) for name in pruning_threshold.NETWORKS]
    made = {}
    ordinary = train(*ordinary)
    for layer, position in ((1, 0), (2, 2)):
        made[f"mu_{layer}"] = torch.stack([net[position].weight for net in nets])
        made[f"bias_{layer}"] = torch.stack([net[position].bias for net in nets])
        made[f"log_alpha_{layer}"] = torch.stack([layer_log_alpha(net[position]) for net in nets])
        made[f"ordinary_mu_{layer}"] = ordinary[position].weight
        made[f"ordinary_bias_{layer}"] = ordinary[position].bias
    return {name: values.detach().numpy() for name, values in made.items()}
