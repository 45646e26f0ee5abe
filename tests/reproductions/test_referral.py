import pytest
import torch

from bdl_lessons.models import Deterministic, Network
from reproductions import referral
from reproductions.referral import SCORES, SHARES, accuracy_of_the_rest, answered
from tests.draws import seeded


def record(kind, seed, accuracies):
    """``accuracies``: the curve of each ``"answer, score, angle"``."""
    return {"config": {**referral._PAPER, "kind": kind}, "seed": seed, "arrays": accuracies}


def line(start, end):
    step = (end - start) / (len(SHARES) - 1)
    return [start + step * number for number in range(len(SHARES))]


def test_every_seed_has_every_kind():
    cases = {(trial.config["kind"], trial.seed) for trial in referral.trials("paper")}
    assert len(cases) == 3 * referral.SEEDS


def test_the_least_sure_go_first():
    """Ten answers of which the two least sure are wrong: right among the rest, by hand."""
    unsure = torch.tensor([0.0, 9, 1, 8, 2, 7, 3, 6, 4, 5])
    is_right = unsure < 8
    kept = accuracy_of_the_rest(unsure, is_right)
    assert kept[SHARES.index(0.0)] == 80.0
    assert kept[SHARES.index(0.1)] == pytest.approx(100 * 8 / 9, abs=0.01)
    assert kept[SHARES.index(0.2)] == kept[-1] == 100.0


def test_scores_are_high_where_answers_are_unsure():
    sure = torch.tensor([9.0, 0.0, 0.0]).repeat(4, 1)
    ambiguous = torch.tensor([2.0, 2.0, -9.0]).repeat(4, 1)
    contradicting = torch.tensor([[9.0, 0.0, 0.0], [0.0, 9.0, 0.0]]).repeat(2, 1)
    logits = torch.stack([sure, ambiguous, contradicting], dim=1)
    for name, score in SCORES.items():
        of_sure, of_ambiguous, of_contradicting = score(logits).tolist()
        assert of_sure < of_contradicting
        if name == "mutual information":
            assert of_ambiguous == pytest.approx(0, abs=1e-6)
        else:
            assert of_sure < of_ambiguous


def test_masks_draw_and_mean_weights_do_not():
    network = Network(Deterministic(torch.nn.Linear(4, 3)))
    x = torch.rand(30, 4, generator=seeded())
    of_masks = answered("dropout, masks", [network], x, 2, seeded())
    assert of_masks.shape == (2, 30, 3)
    mean = network(x, "mean")
    torch.testing.assert_close(of_masks, mean.expand(2, -1, -1))
    of_three = answered("five networks", [network] * 3, x, 2, seeded())
    torch.testing.assert_close(of_three, mean.expand(3, -1, -1))


@pytest.mark.parametrize(("ahead", "holds"), [(0.5, 1), (0.02, 0), (-0.5, 0)])
def test_masks_must_be_clearly_ahead(ahead, holds):
    records = []
    for seed, noise in enumerate((0.0, 0.2, -0.2)):
        plain = line(90 + noise, 95 + noise)
        masks = line(90 + ahead - noise, 95 + ahead - noise)
        records.append(
            record("plain network", seed, {"plain network, largest probability, 30°": plain})
        )
        records.append(record("dropout", seed, {"dropout, masks, largest probability, 30°": masks}))
    helps, against_plain, against_off, _ = referral.claims(records)
    assert (helps.holds, helps.of) == (2, 2)
    assert (against_plain.holds, against_plain.of) == (holds, 1)
    assert against_off.verdict == "not run"


def test_a_rest_that_is_no_better_is_no_gain():
    flat = {"plain network, largest probability, 0°": line(90, 90)}
    helps, *_ = referral.claims([record("plain network", seed, flat) for seed in range(3)])
    assert (helps.holds, helps.of) == (0, 1)


def test_table_and_figure_have_every_angle():
    records = [
        record(
            "plain network",
            seed,
            {
                f"plain network, {score}, {angle}°": line(90, 95)
                for score in ("largest probability", "entropy")
                for angle in (0, 30)
            },
        )
        for seed in range(2)
    ]
    text = referral.table(records)
    assert text.index("Turned by 0°") < text.index("Turned by 30°")
    row = "| plain network | entropy | 90.0 ± 0.0 | 91.0 ± 0.0 | 93.0 ± 0.0 | 2 |"
    assert row in text
    upright, turned = referral.figure(records).axes
    assert [len(axes.lines) for axes in (upright, turned)] == [1, 1]
    assert turned.lines[0].get_xdata().tolist() == [100 * share for share in SHARES]
