"""Exercises of lesson 15: cost when calibrated (Chow), noisy labels, costs by kind, two labels."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from bdl_lessons.evaluation import chow_threshold, decide
from bdl_lessons.exercises.form import numbers
from bdl_lessons.exercises.grader import (
    Answer,
    Criterion,
    Exercise,
    KnownError,
    agrees,
    close,
    normals,
)


def calibrated(cost_of_abstaining: float) -> Tensor:
    """Coverage, risk and mean cost where confidences are uniform over ½ to 1, ``(3,)``.

    The threshold is ``1 - cost_of_abstaining``. Above it lies a share ``2 cost_of_abstaining`` of
    the confidences, and the answers there are wrong half as often as at the threshold.
    """
    coverage = 2 * cost_of_abstaining
    risk = cost_of_abstaining / 2
    cost = coverage * risk + (1 - coverage) * cost_of_abstaining
    return torch.tensor([coverage, risk, cost], dtype=torch.float64)


def noisy_information(probs: Tensor, error: float) -> Tensor:
    """Mutual information of weights and a label that is given with errors, in nats.

    ``probs`` is ``(S, C)``. Each mask also predicts the label that is given; (7) does the rest.
    """
    n_classes = probs.shape[-1]
    given = (1 - error) * probs + error * (1 - probs) / (n_classes - 1)
    entropy_of_mean = torch.special.entr(given.mean(0)).sum()
    entropies = torch.special.entr(given).sum(-1)
    return entropy_of_mean - entropies.mean()


def cheapest(probs: Tensor, cost: Tensor, cost_of_abstaining: float) -> Tensor:
    """The decision with the smallest expected cost, ``(B,)``: a class number, or -1 for no answer.

    ``probs`` is ``(B, C)``; ``cost[k, c]`` is that of answering k where c is right.
    """
    expected = probs @ cost.T
    smallest, answer = expected.min(-1)
    return torch.where(smallest <= cost_of_abstaining, answer, -1)


def joint_information(first: Tensor, second: Tensor) -> Tensor:
    """Mutual information of the mask and the labels at two inputs, in nats.

    The arguments are ``(S, C)`` and ``(S, D)``, answers of the same masks. Given the mask the joint
    distribution is a product, and its entropy a sum; the average over the masks is no product.
    """
    joint = (first[:, :, None] * second[:, None, :]).mean(0)
    entropy_of_mean = torch.special.entr(joint).sum()
    entropies = torch.special.entr(first).sum(-1) + torch.special.entr(second).sum(-1)
    return entropy_of_mean - entropies.mean()


_normal = normals(15)
_PROBS = (2 * _normal(7, 3)).softmax(-1)
_OTHER = (2 * _normal(7, 4)).softmax(-1)
_BATCH = (1.5 * _normal(40, 3)).softmax(-1)
_COST = torch.tensor([[0.0, 4.0, 9.0], [1.0, -2.0, 3.0], [5.0, 2.0, 0.5]]).double()
_CERTAIN = torch.eye(2).double()
_UNIFORM = torch.linspace(0.5, 1, 20_001).double()


def _simulated(cost_of_abstaining: float) -> list[float]:
    """Coverage, risk and mean cost of the package's decisions, on a grid of confidences."""
    probs = torch.stack([_UNIFORM, 1 - _UNIFORM], -1)
    threshold = chow_threshold(cost_of_error=1, cost_of_abstaining=cost_of_abstaining)
    is_answered = decide(probs, threshold) >= 0
    error = 1 - _UNIFORM
    coverage = is_answered.double().mean()
    risk = error[is_answered].mean()
    cost = torch.where(is_answered, error, cost_of_abstaining).mean()
    return [coverage.item(), risk.item(), cost.item()]


def _agrees_with_simulation(index: int) -> Callable[[Answer], bool]:
    """The test that coverage (0), risk (1) or mean cost (2) is what the simulation has."""

    def agrees_at_both_costs(answer: Answer) -> bool:
        for cost_of_abstaining in (0.2, 0.45):
            given = numbers(answer(cost_of_abstaining))[index]
            if not close(given, _simulated(cost_of_abstaining)[index], atol=1e-3):
                return False
        return True

    return agrees_at_both_costs


def _calibrated(coverage: float, risk: float, share_wrong: float, cost: float) -> list[float]:
    """Coverage, risk and mean cost if that share of all inputs is answered wrongly."""
    return [coverage, risk, share_wrong + (1 - coverage) * cost]


def _with_mean_cost(cost_of_abstaining: float, cost: float) -> list[float]:
    """Coverage and risk as they are, with another mean cost."""
    coverage, risk, _ = calibrated(cost_of_abstaining).tolist()
    return [coverage, risk, cost]


def _information(joint: Tensor) -> Tensor:
    """The mutual information of the rows and all other axes of a table of probabilities."""
    joint = joint.flatten(1)
    product = joint.sum(1, keepdim=True) * joint.sum(0)
    return torch.special.xlogy(joint, joint / product).sum()


def _information_of_given(probs: Tensor, error: float) -> Tensor:
    """The information of the label that is given, by summing over the true one."""
    n_classes = probs.shape[-1]
    share_of_wrong_class = error / (n_classes - 1)
    channel = torch.full((n_classes, n_classes), share_of_wrong_class, dtype=torch.float64)
    channel.fill_diagonal_(1 - error)
    return _information(probs @ channel / len(probs))


def _given(probs: Tensor, error: float) -> Tensor:
    """The probabilities ``(S, C)`` of the label that is given."""
    n_classes = probs.shape[-1]
    return (1 - error) * probs + error * (1 - probs) / (n_classes - 1)


def _entropy_of_mean(probs: Tensor) -> Tensor:
    return torch.special.entr(probs.mean(0)).sum()


def _mean_entropy(probs: Tensor) -> Tensor:
    return torch.special.entr(probs).sum(-1).mean()


def _without_normalisation(probs: Tensor, error: float) -> Tensor:
    """(7) where the classes that are named by mistake are not shared out."""
    given = (1 - error) * probs + error * (1 - probs)
    return _entropy_of_mean(given) - _mean_entropy(given)


def _entropy_of_label_lost(probs: Tensor, error: float) -> Tensor:
    """The information of the true label, less the entropy of the label given the true one."""
    n_classes = probs.shape[-1]
    share_of_wrong_class = error / (n_classes - 1)
    chances = torch.tensor([1 - error, *[share_of_wrong_class] * (n_classes - 1)])
    return noisy_information(probs, 0.0) - torch.special.entr(chances).sum()


def _information_of_pair(first: Tensor, second: Tensor) -> Tensor:
    joint = first[:, :, None] * second[:, None, :] / len(first)
    return _information(joint)


def _costs(decisions: Tensor) -> Tensor:
    """The expected cost of each decision about ``_BATCH``, one by one."""
    costs = []
    for probs, decision in zip(_BATCH, decisions.tolist(), strict=True):
        if decision == -1:
            costs.append(1.2)
        else:
            costs.append(sum(probs[c] * _COST[decision, c] for c in range(3)))
    return torch.as_tensor(costs).double()


def _costs_of(answer) -> Tensor:
    decisions = torch.as_tensor(answer(_BATCH, _COST, 1.2)).long()
    return _costs(decisions)


def _smallest_costs() -> Tensor:
    of_every_decision = [_costs(torch.full((40,), decision)) for decision in (-1, 0, 1, 2)]
    return torch.stack(of_every_decision).amin(0)


def _is_chows_rule(answer) -> bool:
    """Whether the decisions are those of Chow's rule with one cost for all errors."""
    cost = 10 * (1 - torch.eye(3, dtype=torch.float64))
    threshold = chow_threshold(cost_of_error=10, cost_of_abstaining=3)
    return close(answer(_BATCH, cost, 3.0), decide(_BATCH, threshold))


def _abstains_where_it_is_cheap(answer) -> bool:
    """Whether it never abstains where that takes 100, and always where it brings 100."""
    expensive = torch.as_tensor(answer(_BATCH, _COST, 100.0))
    cheap = torch.as_tensor(answer(_BATCH, _COST, -100.0))
    return bool((expensive >= 0).all()) and bool((cheap == -1).all())


def _always_answers(probs: Tensor, cost: Tensor, cost_of_abstaining: float) -> Tensor:
    return (probs @ cost.T).argmin(-1)


def _most_expensive(probs: Tensor, cost: Tensor, cost_of_abstaining: float) -> Tensor:
    largest, answer = (probs @ cost.T).max(-1)
    return torch.where(largest <= cost_of_abstaining, answer, -1)


def _abstains_where_answers_are_cheaper(
    probs: Tensor, cost: Tensor, cost_of_abstaining: float
) -> Tensor:
    smallest, answer = (probs @ cost.T).min(-1)
    return torch.where(smallest <= cost_of_abstaining, -1, answer)


def _no_answer_is_the_last_class(probs: Tensor, cost: Tensor, cost_of_abstaining: float) -> Tensor:
    expected = probs @ cost.T
    of_abstaining = torch.full_like(expected[:, :1], cost_of_abstaining)
    return torch.cat([expected, of_abstaining], dim=1).argmin(-1)


def _one_cost_for_all(probs: Tensor, cost: Tensor, cost_of_abstaining: float) -> Tensor:
    """Chow's rule, as if every error cost what the most expensive one does."""
    return decide(probs, 1 - cost_of_abstaining / cost.max().item())


def _most_probable(probs: Tensor, cost: Tensor, cost_of_abstaining: float) -> Tensor:
    """Answers the most probable class unless abstaining is cheaper."""
    answer = probs.argmax(-1)
    expected = (probs @ cost.T).gather(1, answer[:, None])[:, 0]
    return torch.where(expected <= cost_of_abstaining, answer, -1)


def _entropy_of_pair(first: Tensor, second: Tensor) -> Tensor:
    joint = (first[:, :, None] * second[:, None, :]).mean(0)
    return torch.special.entr(joint).sum()


EXERCISES = (
    Exercise(
        number="15.1",
        title="predict the expected cost of a calibrated classifier",
        kind="predict",
        solution=calibrated,
        probe=lambda answer: answer(0.15),
        criteria=(
            Criterion(
                "simulated: the coverage where no answer costs 0.2, and 0.45",
                _agrees_with_simulation(index=0),
                advice="the threshold is 0.8, or 0.55. Which share of ½ to 1 lies above?",
            ),
            Criterion(
                "simulated: the risk",
                _agrees_with_simulation(index=1),
                advice="it is the mean error 1 - p of the answers that are given",
            ),
            Criterion(
                "simulated: the mean cost",
                _agrees_with_simulation(index=2),
                advice="(3) has a term for the answers that are wrong, and one for no answer",
            ),
            Criterion(
                "where no answer costs ½, all inputs are answered: 1, ¼, ¼",
                agrees(lambda answer: answer(0.5), [1.0, 0.25, 0.25], atol=1e-6),
                advice="a confidence of ½ is then enough, and ¾ is the mean confidence",
            ),
        ),
        known_errors=(
            KnownError(
                lambda cost: _calibrated(
                    coverage=cost, risk=cost / 2, share_wrong=cost**2 / 2, cost=cost
                ),
                diagnosis="the confidences fill ½ to 1, an interval of length ½, not 0 to 1.",
            ),
            KnownError(
                lambda cost: _calibrated(
                    coverage=2 * cost, risk=cost, share_wrong=2 * cost**2, cost=cost
                ),
                diagnosis=(
                    "this is the risk at the threshold itself; most answers are surer than that."
                ),
            ),
            KnownError(
                lambda cost: _calibrated(
                    coverage=2 * cost, risk=cost**2, share_wrong=cost**2, cost=cost
                ),
                diagnosis=(
                    "this risk is a share of all inputs; it should be one of the answers given."
                ),
            ),
            KnownError(
                lambda cost: _with_mean_cost(cost, cost=cost**2),
                diagnosis=(
                    "the mean cost lacks what no answer costs. The inputs that get none are a "
                    "share 1 - coverage."
                ),
            ),
            KnownError(
                lambda cost: _with_mean_cost(cost, cost=cost**2 + cost),
                diagnosis="this mean cost counts the cost of no answer also where one is given.",
            ),
            KnownError(
                lambda cost: _with_mean_cost(cost, cost=cost / 2 + (1 - 2 * cost) * cost),
                diagnosis=(
                    "in this mean cost every input is answered at that risk: only a share of them, "
                    "the coverage, is."
                ),
            ),
            KnownError(
                lambda cost: _calibrated(coverage=1.0, risk=0.25, share_wrong=0.25, cost=cost),
                diagnosis=(
                    "this answers every input. The threshold is 1 - cost_of_abstaining, by (2), "
                    "not cost_of_abstaining."
                ),
            ),
        ),
        hints=(
            "With confidence p an answer is wrong with probability 1 - p, as it is calibrated.",
            "Answered are the p from 1 - cost to 1: their mean error is half of the largest.",
            "The mean cost is (3), with a cost of 1 for an error.",
        ),
    ),
    Exercise(
        number="15.2",
        title="a label that may be wrong",
        kind="extend",
        solution=noisy_information,
        probe=lambda answer: [answer(_PROBS, 0.13), answer(_OTHER, 0.31)],
        criteria=(
            Criterion(
                "three classes, 7 masks, 20 % errors: the sum over all true labels",
                agrees(
                    lambda answer: answer(_PROBS, 0.2),
                    lambda _: _information_of_given(_PROBS, 0.2),
                ),
                advice="what probability does a mask give to the label that is *given*?",
            ),
            Criterion(
                "four classes, 35 % errors",
                agrees(
                    lambda answer: answer(_OTHER, 0.35),
                    lambda _: _information_of_given(_OTHER, 0.35),
                ),
                advice="an error goes to each of the other C - 1 classes equally often",
            ),
            Criterion(
                "no errors: the mutual information (7)",
                agrees(
                    lambda answer: answer(_PROBS, 0.0),
                    lambda _: _information_of_given(_PROBS, 0.0),
                ),
                advice="with error = 0 the label that is given is the true one",
            ),
            Criterion(
                "two classes and a coin for a label: nothing is learned",
                agrees(lambda answer: answer(_CERTAIN, 0.5), 0.0),
                advice="an error of ½ between two classes is a coin",
            ),
        ),
        known_errors=(
            KnownError(
                lambda probs, error: (1 - error) * noisy_information(probs, 0.0),
                diagnosis=(
                    "this leaves out the labels that are wrong, as if they could be seen: a wrong "
                    "label names a class too, and misleads."
                ),
            ),
            KnownError(
                lambda probs, error: noisy_information(probs, 0.0),
                diagnosis="this is the information of the true label, whatever error is.",
            ),
            KnownError(
                lambda probs, error: noisy_information(
                    probs, error * (probs.shape[-1] - 1) / probs.shape[-1]
                ),
                diagnosis="this error may name the right class as well: it is spread over all C.",
            ),
            KnownError(
                lambda probs, error: _entropy_of_mean(_given(probs, error)) - _mean_entropy(probs),
                diagnosis=(
                    "only the averaged probabilities have the errors: each mask expects them too, "
                    "so that both entropies in (7) are of the label that is given."
                ),
            ),
            KnownError(
                lambda probs, error: _entropy_of_mean(probs) - _mean_entropy(_given(probs, error)),
                diagnosis=(
                    "only the masks have the errors: their average has them too, so that both "
                    "entropies in (7) are of the label that is given."
                ),
            ),
            KnownError(
                lambda probs, error: _entropy_of_mean(_given(probs, error)),
                diagnosis=(
                    "this is the entropy of the label that is given; what it leaves open when the "
                    "mask is known is to be subtracted."
                ),
            ),
            KnownError(
                _without_normalisation,
                diagnosis=(
                    "these probabilities sum to more than 1 with three classes or more: an error "
                    "names one of C - 1 classes."
                ),
            ),
            KnownError(
                _entropy_of_label_lost,
                diagnosis=(
                    "the entropy of the errors is subtracted, but they make the label itself more "
                    "uncertain too: the first entropy in (7) has to grow with them."
                ),
            ),
            KnownError(
                lambda probs, error: noisy_information(probs, error) / math.log(2),
                diagnosis="this is in bits; nats are wanted, with the natural logarithm.",
            ),
        ),
        hints=(
            "The given label depends on the weights only through the true one.",
            "A mask gives it the probability (1 - error) p + error (1 - p) / (C - 1).",
            "Put these probabilities into (7).",
        ),
    ),
    Exercise(
        number="15.3",
        title="errors that do not cost the same",
        kind="derive",
        solution=cheapest,
        probe=lambda answer: answer(_BATCH, _COST, 1.2),
        criteria=(
            Criterion(
                "no other decision has a smaller expected cost, at 40 inputs",
                agrees(_costs_of, lambda _: _smallest_costs()),
                advice="of each answer k: the costs cost[k, c], weighted by the probabilities of c",
            ),
            Criterion(
                "one cost for all errors: Chow's rule",
                _is_chows_rule,
                advice="compare the smallest expected cost with that of abstaining",
            ),
            Criterion(
                "silence that costs 100 is never chosen, and one that gains 100 always",
                _abstains_where_it_is_cheap,
                advice="-1 where abstaining is cheaper than every answer",
            ),
        ),
        known_errors=(
            KnownError(
                lambda probs, cost, cost_of_abstaining: cheapest(
                    probs, cost.T.contiguous(), cost_of_abstaining
                ),
                diagnosis="rows and columns are exchanged: cost[k, c] is for answer k, right is c.",
            ),
            KnownError(
                _most_probable,
                diagnosis=(
                    "this answers the most probable class; a less probable one may be cheaper."
                ),
            ),
            KnownError(
                _always_answers,
                diagnosis="this always answers: compare with what no answer costs, and give -1.",
            ),
            KnownError(
                _most_expensive,
                diagnosis="this is the answer with the largest expected cost, not the smallest.",
            ),
            KnownError(
                _abstains_where_answers_are_cheaper,
                diagnosis="the comparison is the wrong way round: -1 where no answer is cheaper.",
            ),
            KnownError(
                _no_answer_is_the_last_class,
                diagnosis="no answer has the number -1 here, not that of one more class.",
            ),
            KnownError(
                _one_cost_for_all,
                diagnosis=(
                    "this is Chow's rule with the largest cost for all errors: it looks at the "
                    "largest probability alone, and at none of the other costs."
                ),
            ),
        ),
        hints=(
            "The expected cost of answer k is a sum over the classes c that may be right.",
            "All of them at once are a product of matrices, (B, C) in the end.",
            "Then min(-1), and compare with cost_of_abstaining.",
        ),
    ),
    Exercise(
        number="15.4",
        title="two labels at once",
        kind="derive",
        solution=joint_information,
        probe=lambda answer: [answer(_PROBS, _OTHER), answer(_OTHER, _OTHER)],
        criteria=(
            Criterion(
                "7 masks, three and four classes: from the definition",
                agrees(
                    lambda answer: answer(_PROBS, _OTHER),
                    lambda _: _information_of_pair(_PROBS, _OTHER),
                ),
                advice="(7) holds for the pair of labels, with its C × D probabilities",
            ),
            Criterion(
                "twice the same input",
                agrees(
                    lambda answer: answer(_OTHER, _OTHER),
                    lambda _: _information_of_pair(_OTHER, _OTHER),
                ),
                advice="the labels are independent given the mask, not on the average",
            ),
            Criterion(
                "two masks that are certain: a copy adds nothing to log 2",
                agrees(
                    lambda answer: answer(_CERTAIN, _CERTAIN),
                    torch.tensor(2.0).double().log(),
                ),
                advice="after the first label the mask is known, and the second says nothing new",
            ),
        ),
        known_errors=(
            KnownError(
                lambda first, second: (
                    noisy_information(first, 0.0) + noisy_information(second, 0.0)
                ),
                diagnosis=(
                    "this is the sum of the two. What the first label says is counted again in the "
                    "second; a mask for each row would give this too."
                ),
            ),
            KnownError(
                _entropy_of_pair,
                diagnosis="this is the entropy of the pair; what the masks leave open is missing.",
            ),
        ),
        hints=(
            "(7) holds for any label, a pair of classes too.",
            "Given mask s the pair (k, c) has the probability first[s, k] second[s, c].",
            "Average these products over s before you take the entropy.",
        ),
    ),
)
