"""Gal, Islam and Ghahramani (2017): labels of MNIST that a dropout network asks for. Lesson 15.

A round trains new networks on the labels so far, scores the pool and buys the labels of the ten
best inputs. Beside the pool of distinct images there is one in which each image stands four times
with a little noise, as in Kirsch, van Amersfoort and Gal (2019).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import one_hot

from bdl_lessons.core import CYCLE, GREY, seeded
from bdl_lessons.core.plot_style import new_figure
from bdl_lessons.datasets.records import Record
from bdl_lessons.evaluation import accuracy, log_mean_probs, mutual_information, predictive_entropy
from bdl_lessons.models import BinaryDropout, Deterministic, Network, initialise
from reproductions import markdown
from reproductions.experiment import Claim, Experiment, Trial, TrialResult
from reproductions.images.architectures import lenet5_classic
from reproductions.measure import digits, mean_weights, train_by
from reproductions.paired_gaps import claim, gaps_by_seed, signed

Score = Callable[[Tensor], Tensor]
"""Logits ``(S, B, C)`` of S networks, or of S masks, to how much each label is wanted, ``(B,)``."""

N_FIXED = 9
"""The modules of LeNet-5 up to its first hidden layer of 120 units: nothing there is drawn."""


def variation_ratio(logits: Tensor) -> Tensor:
    """The share of the S answers that are not the most frequent one, ``(S, B, C) -> (B,)``.

    >>> variation_ratio(torch.tensor([[[2.0, 1.0]], [[0.0, 1.0]], [[3.0, 1.0]], [[5.0, 1.0]]]))
    tensor([0.2500])
    """
    votes = one_hot(logits.argmax(-1), logits.shape[-1]).float().mean(0)
    return 1 - votes.amax(-1)


def mean_std(logits: Tensor) -> Tensor:
    """The standard deviation of each probability over the S answers, averaged over classes."""
    return logits.softmax(-1).std(0, correction=0).mean(-1)


@dataclass(frozen=True)
class Rule:
    """How labels are chosen.

    Attributes:
        score: of the pool; ``None``: at random.
        p_drop: on the inputs of the last two layers.
        n_networks: that are trained on the same labels from other starts.
        masks: whether the score sees draws of the masks, or the mean weights.
        random: the rule that buys at random for the same networks.
    """

    score: Score | None
    p_drop: float = 0.5
    n_networks: int = 1
    masks: bool = True
    random: str = "random"


PLAIN = partial(Rule, p_drop=0.0, masks=False, random="plain network, random")
FIVE = partial(PLAIN, n_networks=5, random="five networks, random")
RULES = {
    "random": Rule(None),
    "mutual information": Rule(mutual_information),
    "variation ratios": Rule(variation_ratio),
    "entropy": Rule(predictive_entropy),
    "mean standard deviation": Rule(mean_std),
    "entropy, masks off": Rule(predictive_entropy, masks=False),
    "plain network, random": PLAIN(None),
    "plain network, entropy": PLAIN(predictive_entropy),
    "five networks, random": FIVE(None),
    "five networks, mutual information": FIVE(mutual_information),
}
ON_COPIES = ("random", "mutual information", "variation ratios", "entropy")
"""The rules that are also tried on the pool with copies."""

SEEDS = 5
_PAPER = {
    "n_train": 60_000,
    "n_test": 10_000,
    "n_pool": 10_000,
    "n_copies": 1,
    "copy_noise": 0.1,
    "n_start": 20,
    "n_asked": 10,
    "n_rounds": 18,
    "n_masks": 20,
    "n_steps": 200,
    "batch_size": 20,
    "learning_rate": 3e-3,
    "kl_weight": 0.1,
}
_QUICK = {
    **_PAPER,
    "n_train": 400,
    "n_test": 50,
    "n_pool": 400,
    "n_rounds": 2,
    "n_masks": 3,
    "n_steps": 4,
}


def trials(scale: str) -> list[Trial]:
    """Seed by seed, in both pools, what trains one network a round; then what trains five."""
    cases = [(rule, 1) for rule in RULES if RULES[rule].n_networks == 1]
    cases += [(rule, 4) for rule in ON_COPIES]
    with_five = [(rule, 1) for rule in RULES if RULES[rule].n_networks > 1]
    if scale == "quick":
        return [
            Trial({**_QUICK, "rule": rule, "n_copies": n_copies}, seed=0)
            for rule, n_copies in cases + with_five
        ]
    return [
        Trial({**_PAPER, "rule": rule, "n_copies": n_copies}, seed)
        for group in (cases, with_five)
        for seed in range(SEEDS)
        for rule, n_copies in group
    ]


class Pool(NamedTuple):
    """Inputs ``x (N, 1, 28, 28)``, the labels ``y (N,)`` that may be bought, which ``image (N,)``
    each row is, and the ``start (20,)``: rows whose labels are known, two of each class."""

    x: Tensor
    y: Tensor
    image: Tensor
    start: Tensor


def make_pool(x: Tensor, y: Tensor, config: Mapping[str, Any], generator: torch.Generator) -> Pool:
    """``n_pool`` rows, in which every image stands ``n_copies`` times, each with its own noise."""
    n_images = config["n_pool"] // config["n_copies"]
    order = torch.randperm(len(x), generator=generator, device=generator.device)
    chosen = order[:n_images].to(x.device)
    image = torch.arange(n_images, device=x.device).repeat(config["n_copies"])
    rows = x[chosen][image]
    if config["n_copies"] > 1:
        noise = torch.randn(rows.shape, generator=generator, device=generator.device)
        rows = rows + config["copy_noise"] * noise.to(rows.device)
    labels = y[chosen]
    of_each_class = config["n_start"] // 10
    start = [(labels == digit).nonzero()[:of_each_class, 0] for digit in range(10)]
    return Pool(x=rows, y=labels[image], image=image, start=torch.cat(start))


def run(trial: Trial) -> TrialResult:
    """Buy labels by one rule.

    Metrics: test ``accuracy`` in percent with all labels, ``mean_accuracy`` over the rounds, and
    ``distinct``, how many different images the labelled rows show, for each of these rows.
    Arrays: ``accuracy`` with 20, 30, ... labels.
    """
    config = trial.config
    rule = RULES[config["rule"]]
    x, y, x_test, y_test = digits(config, lambda images: images)
    pool = make_pool(x, y, config, seeded(trial.seed))
    generator = seeded(trial.seed)
    labelled = pool.start
    accuracies = []
    for number in range(config["n_rounds"] + 1):
        networks = [
            train(pool.x[labelled], pool.y[labelled], rule.p_drop, config, generator)
            for _ in range(rule.n_networks)
        ]
        answers = torch.stack([mean_weights(network, x_test) for network in networks])
        accuracies.append(100 * accuracy(log_mean_probs(answers).exp(), y_test))
        if number < config["n_rounds"]:
            wanted = wanted_labels(rule, networks, pool.x, config["n_masks"], generator)
            wanted[labelled] = -math.inf
            labelled = torch.cat([labelled, wanted.topk(config["n_asked"]).indices])
    metrics = {
        "accuracy": accuracies[-1],
        "mean_accuracy": float(np.mean(accuracies)),
        "distinct": len(pool.image[labelled].unique()) / len(labelled),
    }
    return TrialResult(metrics, {"accuracy": [round(value, 2) for value in accuracies]})


def train(
    x: Tensor, y: Tensor, p_drop: float, config: Mapping[str, Any], generator: torch.Generator
) -> Network:
    """LeNet-5 from a new start, with dropout on the inputs of its last two layers."""
    noisy = partial(BinaryDropout, p_drop=p_drop)
    methods = [Deterministic, Deterministic, Deterministic, noisy, noisy]
    network = initialise(lenet5_classic(methods).to(x.device), generator)
    train_by(
        config,
        network,
        x,
        y,
        generator=generator,
        n_steps=config["n_steps"],
        kl_weight=config["kl_weight"],
        progress=False,
    )
    return network


@torch.no_grad()
def wanted_labels(
    rule: Rule, networks: Sequence[Network], x: Tensor, n_masks: int, generator: torch.Generator
) -> Tensor:
    """The score of every input, ``(B,)``; equal scores stand in random order.

    What comes before the first mask is computed once, and not for each mask.
    """
    by_chance = torch.rand(len(x), generator=generator, device=generator.device).to(x.device)
    if rule.score is None:
        return by_chance
    answers = []
    for network in networks:
        fixed = Network(*network[:N_FIXED])
        rest = Network(*network[N_FIXED:])
        hidden = mean_weights(fixed, x)
        if rule.masks:
            answers += [rest(hidden, "per_example", generator) for _ in range(n_masks)]
        else:
            answers.append(rest(hidden, "mean"))
    return rule.score(torch.stack(answers)) + 1e-6 * by_chance


def table(records: Sequence[Record]) -> str:
    """Accuracies by rule, and how far they lie from those of random labels, for each pool."""
    bought = curves(records)
    config = records[0]["config"]
    n_last = config["n_start"] + config["n_asked"] * config["n_rounds"]
    parts = []
    for n_copies, of_pool in bought.groupby("n_copies"):
        rows = []
        for rule in RULES:
            of_rule = of_pool[of_pool["rule"] == rule]
            if of_rule.empty:
                continue
            random = RULES[rule].random
            gaps = gaps_by_seed(of_pool, "rule", rule, random)
            is_compared = rule != random and len(gaps) > 0
            rows.append(
                {
                    "labels by": rule,
                    f"{n_last // 2} labels": _at(of_rule, n_last // 2),
                    f"{n_last} labels": _at(of_rule, n_last),
                    "mean over rounds − random": signed(gaps, digits=1) if is_compared else "–",
                    "distinct images": _percent(of_rule["distinct"].mean()),
                    "seeds": of_rule["seed"].nunique(),
                }
            )
        parts.append(f"{_POOLS[n_copies]}:\n\n{markdown.frame_table(pd.DataFrame(rows))}")
    return "\n\n".join([*parts, _SET_UP.format(**config)])


def claims(records: Sequence[Record]) -> list[Claim]:
    """Scores against random labels, masks against a plain network, and the pool with copies."""
    bought = curves(records)
    distinct = bought[bought["n_copies"] == 1]
    copies = bought[bought["n_copies"] > 1]
    return [
        claim(
            "Mutual information, variation ratios and entropy over masks need fewer labels than "
            "chance",
            published="fewer (Gal et al. 2017)",
            gaps={
                rule: gaps_by_seed(distinct, "rule", rule, "random")
                for rule in ("mutual information", "variation ratios", "entropy")
            },
            condition=f"a pool of 10,000 distinct images; {_MEASURED}",
            digits=1,
        ),
        claim(
            "Entropy over masks needs fewer labels than the entropy of a plain network",
            published="fewer (Gal et al. 2017)",
            gaps={"entropy": gaps_by_seed(distinct, "rule", "entropy", "plain network, entropy")},
            condition=f"a pool of 10,000 distinct images; the networks differ too; {_MEASURED}",
            digits=1,
        ),
        claim(
            "In a pool of copies the ten best by mutual information teach less than ten by chance",
            published="less (Kirsch et al. 2019)",
            gaps={
                "mutual information": gaps_by_seed(copies, "rule", "mutual information", "random")
            },
            condition=(
                f"2,500 images, each four times with noise of standard deviation 0.1; {_MEASURED}"
            ),
            digits=1,
            sign=-1,
        ),
    ]


def figure(records: Sequence[Record]) -> Figure:
    """Left distinct images, right copies: accuracy against labels, means over seeds."""
    bought = curves(records)
    colours = dict(zip(RULES, (GREY, *CYCLE, *CYCLE), strict=False))
    picture = new_figure(10.0, 4.2, layout="constrained")
    left, right = picture.subplots(1, 2, sharey=True)
    for axes, (n_copies, title) in zip((left, right), _POOLS.items(), strict=True):
        of_pool = bought[bought["n_copies"] == n_copies]
        for rule, of_rule in of_pool.groupby("rule", sort=False):
            mean = of_rule.groupby("labels")["accuracy"].mean()
            dash = "-" if RULES[rule].masks and RULES[rule].score else "--"
            axes.plot(mean.index, mean, color=colours[rule], ls=dash, lw=1.6, label=rule)
        axes.set(title=title, xlabel="labels")
    left.set_ylabel("test accuracy [%]")
    left.legend(fontsize=7)
    return picture


def curves(records: Sequence[Record]) -> pd.DataFrame:
    """A row for each record and number of labels: ``rule, n_copies, seed, labels, accuracy``, and
    the share of ``distinct`` images at the end."""
    rows = []
    for record in records:
        config = record["config"]
        for number, value in enumerate(record["arrays"]["accuracy"]):
            rows.append(
                {
                    "rule": config["rule"],
                    "n_copies": config["n_copies"],
                    "seed": record["seed"],
                    "labels": config["n_start"] + config["n_asked"] * number,
                    "accuracy": value,
                    "distinct": record["metrics"]["distinct"],
                }
            )
    return pd.DataFrame(rows)


def _at(of_rule: pd.DataFrame, n_labels: int) -> str:
    """The accuracy with so many labels, over seeds."""
    values = of_rule.loc[of_rule["labels"] == n_labels, "accuracy"]
    return markdown.mean_and_error(list(values), digits=1)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


_MEASURED = "mean accuracy over all rounds, two standard errors over seeds"
_POOLS = {1: "Pool of distinct images", 4: "Pool in which each image stands four times"}
_SET_UP = """\
Test accuracy is in percent, mean ± standard error over seeds; a seed is a pool, its first
{n_start} labels and the starts of all networks, so gaps are paired. Each round trains a new
LeNet-5 ({n_steps} steps of Adam at {learning_rate:g} on batches of {batch_size}), dropout at ½ on
the inputs of its last two layers; {n_asked} labels a round, {n_masks} masks a score, test answers
by the mean weights. Rules of plain networks and of five are compared with random labels for
networks of the same kind. Other than in the paper: a smaller network, a pool of {n_pool:,}
images, and fewer labels; rate and number of steps were chosen on random labels and images of
neither pool nor test set. Its table counts labels until an error, which these budgets do not
reach for every rule; we have not seen the printed table and quote no number of it."""
TITLE = "Labels that a network asks for (Gal, Islam and Ghahramani 2017, table 1)"
EXPERIMENT = Experiment("active_learning", TITLE, trials, run, table, figure, claims)
