"""Leibig et al. (2017): accuracy of what is answered when the uncertain inputs go to a person.

Upright and turned digits of MNIST, LeNet-5, and three kinds of network: a plain one, one that was
trained with dropout, and five plain ones. Lesson 15.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from bdl_lessons.core import BLUE, GREEN, GREY, RED, seeded
from bdl_lessons.core.plot_style import new_figure
from bdl_lessons.datasets import rotated
from bdl_lessons.datasets.records import Record
from bdl_lessons.evaluation import log_mean_probs, mutual_information, predictive_entropy
from bdl_lessons.inference import predict
from bdl_lessons.models import Network
from reproductions import markdown
from reproductions.active_learning import train
from reproductions.experiment import Claim, Experiment, Trial, TrialResult
from reproductions.measure import digits, mean_weights
from reproductions.paired_gaps import claim, gaps_by_seed


def largest_probability(logits: Tensor) -> Tensor:
    """Minus the probability of the answer, averaged over ``(S, B, C)`` logits, ``(B,)``."""
    return -log_mean_probs(logits).amax(-1).exp()


SCORES: dict[str, Callable[[Tensor], Tensor]] = {
    "largest probability": largest_probability,
    "entropy": predictive_entropy,
    "mutual information": mutual_information,
}
"""From logits ``(S, B, C)`` to how much each input should go to a person, ``(B,)``."""

KINDS = ("plain network", "dropout", "five networks")
ANSWERS = {
    "plain network": ("plain network",),
    "dropout": ("dropout, masks off", "dropout, masks"),
    "five networks": ("five networks",),
}
"""The answers that a trial's networks give; only those with several draws can disagree."""

SEEDS = 5

SHARES = tuple(round(0.05 * number, 2) for number in range(11))
"""The shares of the inputs that go to a person."""

_PAPER = {
    "n_train": 10_000,
    "n_test": 5000,
    "angles": [0, 30, 45],
    "p_drop": 0.5,
    "n_samples": 20,
    "n_steps": 1000,
    "batch_size": 64,
    "learning_rate": 1e-3,
    "kl_weight": 0.1,
}
_QUICK = {**_PAPER, "n_train": 400, "n_test": 50, "n_samples": 3, "n_steps": 4}


def trials(scale: str) -> list[Trial]:
    """Seed by seed, each kind of network."""
    if scale == "quick":
        return [Trial({**_QUICK, "kind": kind}, seed=0) for kind in KINDS]
    return [Trial({**_PAPER, "kind": kind}, seed) for seed in range(SEEDS) for kind in KINDS]


def run(trial: Trial) -> TrialResult:
    """Train one kind of network, and refer test digits at each angle by each score.

    Metrics: ``accuracy`` in percent of each answer and angle, ``"plain network, 0°"``. Arrays: the
    accuracy of what is answered at each of ``SHARES``, ``"plain network, entropy, 0°"``.
    """
    config = trial.config
    x, y, x_test, y_test = digits(config, lambda images: images)
    generator = seeded(trial.seed)
    networks = trained(x, y, config, generator)
    metrics = {}
    arrays = {}
    for angle in config["angles"]:
        turned = rotated(x_test[:, 0], float(angle))[:, None]
        for answer in ANSWERS[config["kind"]]:
            logits = answered(answer, networks, turned, config["n_samples"], generator)
            is_right = log_mean_probs(logits).argmax(-1) == y_test
            metrics[f"{answer}, {angle}°"] = 100 * is_right.double().mean().item()
            for name, score in SCORES.items():
                if name == "mutual information" and len(logits) == 1:
                    continue  # one draw cannot disagree
                kept = accuracy_of_the_rest(score(logits), is_right)
                arrays[f"{answer}, {name}, {angle}°"] = kept
    return TrialResult(metrics, arrays)


def trained(
    x: Tensor, y: Tensor, config: Mapping[str, Any], generator: torch.Generator
) -> list[Network]:
    """One LeNet-5, or five; dropout acts on the inputs of the last two layers."""
    p_drop = config["p_drop"] if config["kind"] == "dropout" else 0.0
    n_networks = 5 if config["kind"] == "five networks" else 1
    return [train(x, y, p_drop, config, generator) for _ in range(n_networks)]


def answered(
    answer: str, networks: Sequence[Network], x: Tensor, n_samples: int, generator: torch.Generator
) -> Tensor:
    """Logits ``(S, B, C)``: of every network with its mean weights, or of the masks of one."""
    if answer == "dropout, masks":
        return predict(networks[0], x, n_samples=n_samples, generator=generator)
    return torch.stack([mean_weights(network, x) for network in networks])


def accuracy_of_the_rest(uncertainty: Tensor, is_right: Tensor) -> list[float]:
    """Percent right of the inputs that stay when a share of ``SHARES``, the most uncertain, goes.

    >>> kept = accuracy_of_the_rest(torch.arange(20.0), torch.arange(20) < 18)
    >>> kept[0], kept[2]
    (90.0, 100.0)
    """
    in_order = is_right[uncertainty.argsort(stable=True)].double()  # the most confident first
    n_kept = [len(in_order) - round(share * len(in_order)) for share in SHARES]
    return [round(100 * in_order[:n].mean().item(), 2) for n in n_kept]


def table(records: Sequence[Record]) -> str:
    """For each angle the accuracy at three shares, by answer and score."""
    kept = curves(records)
    parts = []
    for angle, at_angle in kept.groupby("angle"):
        rows = []
        for (answer, score), of_row in at_angle.groupby(["answer", "score"], sort=False):
            row = {"answers": answer, "referred by": score}
            for share in (0.0, 0.1, 0.3):
                values = of_row.loc[of_row["share"] == share, "accuracy"]
                row[f"{100 * share:.0f} % referred"] = markdown.mean_and_error(list(values), 1)
            rows.append({**row, "seeds": of_row["seed"].nunique()})
        parts.append(f"Turned by {angle}°:\n\n{markdown.frame_table(pd.DataFrame(rows))}")
    return "\n\n".join([*parts, _SET_UP.format(**records[0]["config"])])


def claims(records: Sequence[Record]) -> list[Claim]:
    """Referral helps; masks and five networks against a plain network; masks against none."""
    kept = curves(records)
    by_probability = kept[kept["score"] == "largest probability"]
    gains = {
        f"{answer}, {angle}°": gain(of_answer)
        for (answer, angle), of_answer in by_probability.groupby(["answer", "angle"])
    }

    def gaps(answer: str, other: str) -> dict[str, pd.Series]:
        return {
            f"{angle}°": gaps_by_seed(at_angle, "answer", answer, other)
            for angle, at_angle in by_probability.groupby("angle")
        }

    return [
        claim(
            "With the most uncertain 30 % referred, the answers that are left are right more often",
            published="more often (Leibig et al. 2017)",
            gaps=gains,
            condition=f"by the largest probability; {_ERRORS}",
            digits=2,
        ),
        claim(
            "Masks leave more right answers than a plain network at the same share",
            published="more (Leibig et al. 2017; Filos et al. 2019)",
            gaps=gaps("dropout, masks", "plain network"),
            condition="by the largest probability, mean over shares; trained equally long, and the "
            f"networks differ too; {_ERRORS}",
            digits=2,
        ),
        claim(
            "Masks leave more right answers than the same network with its masks off",
            published="more (Leibig et al. 2017)",
            gaps=gaps("dropout, masks", "dropout, masks off"),
            condition=f"by the largest probability, mean over shares, one network each; {_ERRORS}",
            digits=2,
        ),
        claim(
            "Five networks leave more right answers than one",
            published="more (Filos et al. 2019)",
            gaps=gaps("five networks", "plain network"),
            condition=f"by the largest probability, mean over shares; {_ERRORS}",
            digits=2,
        ),
    ]


def figure(records: Sequence[Record]) -> Figure:
    """Accuracy of the rest against the share referred, an axis for each angle."""
    kept = curves(records)
    by_probability = kept[kept["score"] == "largest probability"]
    angles = sorted(kept["angle"].unique())
    picture = new_figure(10.0, 3.8, layout="constrained")
    axes_of = dict(zip(angles, picture.subplots(1, len(angles), squeeze=False)[0], strict=True))
    for (angle, answer), of_answer in by_probability.groupby(["angle", "answer"]):
        mean = of_answer.groupby("share")["accuracy"].mean()
        colour, dash = _LOOK[answer]
        axes_of[angle].plot(100 * mean.index, mean, color=colour, ls=dash, label=answer)
        axes_of[angle].set(title=f"turned by {angle}°", xlabel="referred [%]")
    first = axes_of[angles[0]]
    first.set_ylabel("right among the rest [%]")
    first.legend(fontsize=8)
    return picture


def curves(records: Sequence[Record]) -> pd.DataFrame:
    """A row for each answer, score, angle, seed and share, with the ``accuracy`` of the rest."""
    rows = []
    for record in records:
        for name, values in record["arrays"].items():
            answer, score, angle = name.rsplit(", ", 2)
            for share, value in zip(SHARES, values, strict=True):
                rows.append(
                    {
                        "answer": answer,
                        "score": score,
                        "angle": int(angle.removesuffix("°")),
                        "seed": record["seed"],
                        "share": share,
                        "accuracy": value,
                    }
                )
    return pd.DataFrame(rows)


def gain(of_answer: pd.DataFrame) -> pd.Series:
    """Accuracy with 30 % referred minus that with none, by seed, in points."""
    by_share = of_answer.pivot_table(values="accuracy", index="seed", columns="share")
    return by_share[0.3] - by_share[0.0]


_ERRORS = "two standard errors over seeds"
_LOOK = {
    "plain network": (GREY, "--"),
    "dropout, masks off": (RED, "-."),
    "dropout, masks": (BLUE, "-"),
    "five networks": (GREEN, ":"),
}
_SET_UP = """\
Percent right among the test digits that are left when a share goes to a person, mean ± standard
error over seeds. LeNet-5, {n_train:,} training images, {n_steps:,} steps of Adam at
{learning_rate:g} on batches of {batch_size}; dropout at ½ on the inputs of the last two layers,
{n_samples} masks. The turned digits were never trained on. Other than in the papers: digits, not
images of eyes, so only the statements are compared, and no number of theirs is quoted."""
TITLE = "Accuracy of the rest when uncertain answers are referred (Leibig et al. 2017)"
EXPERIMENT = Experiment("referral", TITLE, trials, run, table, figure, claims)
