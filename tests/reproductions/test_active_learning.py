import math

import pytest
import torch

from bdl_lessons.models import Deterministic, Network
from reproductions import active_learning
from reproductions.active_learning import PLAIN, RULES, Rule, make_pool, mean_std, variation_ratio
from tests.draws import seeded


def record(rule, seed, accuracies, n_copies=1):
    return {
        "config": {**active_learning._PAPER, "rule": rule, "n_copies": n_copies},
        "seed": seed,
        "metrics": {"distinct": 1 / n_copies},
        "arrays": {"accuracy": accuracies},
    }


def test_every_rule_is_tried_on_distinct_images_and_some_on_copies():
    configs = [trial.config for trial in active_learning.trials("paper")]
    on_distinct = [config["rule"] for config in configs if config["n_copies"] == 1]
    on_copies = [config["rule"] for config in configs if config["n_copies"] == 4]
    assert sorted(on_distinct) == sorted(list(RULES) * active_learning.SEEDS)
    assert sorted(on_copies) == sorted(list(active_learning.ON_COPIES) * active_learning.SEEDS)


def test_a_rule_is_compared_with_random_labels_for_its_kind_of_network():
    for rule in RULES.values():
        random = RULES[rule.random]
        assert random.score is None
        assert (random.p_drop, random.n_networks) == (rule.p_drop, rule.n_networks)


def test_scores_of_two_answers_by_hand():
    """One input on which two of four masks name class 0, one on which all do."""
    certain = 50.0
    agree = torch.tensor([[certain, 0.0]]).repeat(4, 1)
    differ = torch.tensor([[certain, 0.0], [certain, 0.0], [0.0, certain], [0.0, certain]])
    logits = torch.stack([differ, agree], dim=1)
    torch.testing.assert_close(variation_ratio(logits), torch.tensor([0.5, 0.0]))
    torch.testing.assert_close(mean_std(logits), torch.tensor([0.5, 0.0]))


@pytest.fixture
def images():
    generator = seeded()
    labels = torch.arange(200) % 10
    return torch.rand(200, 1, 4, 4, generator=generator), labels


def test_copies_are_noisy_images_of_the_pool_with_their_labels(images):
    x, y = images
    config = {**active_learning._PAPER, "n_pool": 160, "n_copies": 4, "copy_noise": 0.01}
    pool = make_pool(x, y, config, seeded())
    assert pool.x.shape == (160, 1, 4, 4)
    assert pool.image.bincount().tolist() == [4] * 40
    for image in range(40):
        rows = (pool.image == image).nonzero()[:, 0]
        assert len(pool.y[rows].unique()) == 1  # bits: labels
        spread = (pool.x[rows] - pool.x[rows].mean(0)).abs().amax()
        assert 0 < spread < 0.06
        distance = (x - pool.x[rows].mean(0)).flatten(1).norm(dim=1)
        assert y[distance.argmin()] == pool.y[rows[0]]


def test_the_first_labels_are_two_of_each_class(images):
    pool = make_pool(*images, {**active_learning._PAPER, "n_pool": 200}, seeded())
    assert pool.y[pool.start].bincount().tolist() == [2] * 10


def two_layers(methods):
    """Nine modules without weights, then two layers in the place of the last ones of LeNet-5."""
    return Network(
        *[torch.nn.Identity() for _ in range(active_learning.N_FIXED)],
        methods(torch.nn.Linear(4, 3)),
        torch.nn.ReLU(),
        methods(torch.nn.Linear(3, 2)),
    )


def test_the_fixed_part_of_lenet_ends_before_the_first_mask():
    network = active_learning.train(
        torch.rand(20, 1, 28, 28, generator=seeded()),
        torch.arange(20) % 10,
        0.5,
        {**active_learning._QUICK, "n_steps": 1},
        seeded(),
    )
    first_noisy = [hasattr(module, "p_drop") for module in network].index(True)
    assert first_noisy == active_learning.N_FIXED


def test_a_score_without_masks_sees_the_mean_weights():
    network = two_layers(Deterministic)
    x = torch.rand(30, 4, generator=seeded())
    expected = RULES["plain network, entropy"].score(network(x, "mean")[None])
    wanted = active_learning.wanted_labels(
        PLAIN(RULES["plain network, entropy"].score), [network], x, 3, seeded()
    )
    torch.testing.assert_close(wanted, expected, atol=2e-6, rtol=0)


def test_equal_scores_are_bought_in_random_order():
    rule = Rule(lambda logits: torch.zeros(logits.shape[1]))
    x = torch.rand(30, 4, generator=seeded())
    orders = [
        active_learning.wanted_labels(
            rule, [two_layers(Deterministic)], x, 2, torch.Generator().manual_seed(seed)
        ).argsort()
        for seed in (1, 2)
    ]
    assert not torch.equal(*orders)  # bits: places


@pytest.mark.parametrize(("shift", "holds"), [(2.0, 1), (0.05, 0), (-2.0, 0)])
def test_a_rule_must_be_clearly_ahead_of_chance(shift, holds):
    records = []
    for seed, noise in enumerate((0.0, 0.3, -0.3)):
        records.append(record("random", seed, [50.0, 60.0 + seed]))
        records.append(record("entropy", seed, [50.0 + shift + noise, 60.0 + seed + shift + noise]))
    claim, _, of_copies = active_learning.claims(records)
    assert (claim.holds, claim.of) == (holds, 1)
    assert of_copies.verdict == "not run"


def test_on_copies_the_claim_is_that_chance_is_ahead():
    records = []
    for seed, noise in enumerate((0.0, 0.3, -0.3)):
        records.append(record("random", seed, [60.0, 70.0], n_copies=4))
        records.append(record("mutual information", seed, [55.0 + noise, 65.0 + noise], n_copies=4))
    *_, of_copies = active_learning.claims(records)
    assert of_copies.verdict == "reproduced"


def test_table_and_figure_have_both_pools():
    records = []
    for seed in range(2):
        for rule in ("random", "entropy"):
            rising = [50.0 + number for number in range(19)]
            records.append(record(rule, seed, rising))
            records.append(record(rule, seed, rising, n_copies=4))
    text = active_learning.table(records)
    assert "Pool of distinct images" in text
    assert "each image stands four times" in text
    assert "| entropy | 58.0 ± 0.0 | 68.0 ± 0.0 | +0.0 ± 0.0 | 100 % | 2 |" in text
    left, right = active_learning.figure(records).axes
    assert [len(axes.lines) for axes in (left, right)] == [2, 2]
    assert not math.isnan(left.lines[0].get_ydata()[-1])
