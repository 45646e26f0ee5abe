import json
import math
from functools import partial

import pytest
import torch

from bdl_lessons import datasets
from bdl_lessons.datasets.splits import splits
from bdl_lessons.evaluation import log_predictive_likelihood
from bdl_lessons.inference import adam, fit
from bdl_lessons.models import Deterministic, initialise, mlp
from bdl_lessons.probability import gaussian_nll
from reproductions.records import make_record
from reproductions.uci import experiment
from reproductions.uci.networks import Networks
from reproductions.uci.protocol import TAUS, choose_and_predict, log_likelihood
from reproductions.uci.tables import PUBLISHED_METHODS, PUBLISHED_NAMES, published
from reproductions.uci.trials import BASELINES, FIRST, LARGE, METHODS, SMALL, TAU_GRIDS, trials

CONFIG = {
    "n_hidden": 8,
    "batch_size": 16,
    "n_steps": 12,
    "learning_rate": 0.02,
    "n_samples_val": 4,
    "n_samples": 6,
}


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def linear_data(n_splits, n_rows, noise_std, seed=0):
    """``y = 30 + x w + noise`` with x in units of their own; the same w for every split."""
    generator = gen(seed)
    x = 5 + torch.randn(n_splits, n_rows, 3, generator=generator).double()
    noise = noise_std * torch.randn(n_splits, n_rows, generator=generator).double()
    return x, 30 + x @ torch.tensor([2.0, -1.0, 0.5], dtype=torch.float64) + noise


def plain_network(kl_weights=(1e-3,), **settings):
    grid = tuple({"kl_weight": weight} for weight in kl_weights)
    return Networks("", grid, layers=lambda settings: Deterministic(), **settings)


def test_log_likelihood_is_that_of_the_mixture():
    draws, y = torch.randn(5, 2, 7, generator=gen()), torch.randn(2, 7, generator=gen(1))
    taus = torch.tensor([0.7, 3.0])
    expected = [
        log_predictive_likelihood(draws[:, m, :, None], y[m, :, None], taus[m].item()).mean()
        for m in range(2)
    ]
    torch.testing.assert_close(log_likelihood(draws, y, taus), torch.stack(expected))


def test_a_column_of_targets_is_refused():
    with pytest.raises(ValueError, match=r"y has shape \(2, 1\), a draw has \(2, 7\)"):
        log_likelihood(torch.zeros(5, 2, 7), torch.zeros(2, 1), 1.0)


def test_the_chosen_tau_is_near_the_truth_in_original_units():
    noise_std = 0.5
    x, y = linear_data(3, 500, noise_std)
    config = CONFIG | {"n_steps": 250, "batch_size": 64, "grid": [{"kl_weight": 1e-3}]}
    tau_grid = (1.0, 4.0, 16.0)
    found = choose_and_predict(
        plain_network(), x[:, :400], y[:, :400], x[:, 400:], tau_grid, config, gen()
    )
    assert (found.taus * noise_std**2).tolist() == pytest.approx([1] * 3, rel=0.5)
    assert found.grid_taus.tolist() == [4.0] * 3
    rmse = (found.draws.mean(0) - y[:, 400:]).square().mean(1).sqrt()
    assert rmse.tolist() == pytest.approx([noise_std] * 3, rel=0.25)
    best = -0.5 * math.log(2 * math.pi * math.e * noise_std**2)
    reached = log_likelihood(found.draws, y[:, 400:], found.taus)
    assert reached.tolist() == pytest.approx([best] * 3, abs=0.15)


def test_a_hopeless_weight_of_the_kl_is_not_chosen():
    x, y = linear_data(2, 120, 0.1)
    grid = [{"kl_weight": 1e4}, {"kl_weight": 1e-4}]
    config = CONFIG | {"n_steps": 80, "grid": grid}
    found = choose_and_predict(
        plain_network((1e4, 1e-4)), x, y, x[:, :5], TAU_GRIDS["yacht"], config, gen()
    )
    assert found.points == [1, 1]
    y_var = y[:, :96].var(1, correction=0)
    torch.testing.assert_close(found.kl_weights, 1e-4 * found.taus * y_var)


def test_tau_and_the_weight_of_the_kl_matter_for_training_by_their_ratio_only():
    x, y = (
        torch.randn(30, 3, generator=gen()).double(),
        torch.randn(30, 1, generator=gen()).double(),
    )
    outputs = []
    for tau, kl_weight in ((1.0, 0.1), (50.0, 5.0)):
        network = initialise(mlp((3, 6, 1), Deterministic()), gen()).double()
        fit(
            network,
            x,
            y,
            partial(gaussian_nll, tau=tau),
            kl_weight=kl_weight,
            n_steps=50,
            generator=gen(),
            optimizer=adam(0.02),
        )
        outputs.append(network(x, "mean"))
    torch.testing.assert_close(*outputs, atol=1e-4, rtol=1e-4)


def test_side_by_side_is_one_at_a_time():
    x, y = torch.randn(3, 16, 4, generator=gen()), torch.randn(3, 16, generator=gen(1))
    points = [{"kl_weight": weight} for weight in (0.0, 0.1, 10.0)]
    predict = plain_network().train(points, x, y, CONFIG, gen())
    together = predict(x, 1, gen())[0]
    generator = gen()
    alone = [initialise(mlp((4, 8, 1), Deterministic()), generator) for _ in points]
    for network, point, inputs, targets in zip(alone, points, x, y, strict=True):
        fit(
            network,
            inputs,
            targets[:, None],
            partial(gaussian_nll, tau=1.0),
            kl_weight=point["kl_weight"],
            n_steps=CONFIG["n_steps"],
            generator=generator,
            optimizer=adam(CONFIG["learning_rate"]),
            schedule=lambda step: (1 + math.cos(math.pi * step / CONFIG["n_steps"])) / 2,
        )
    expected = [net(rows, "mean")[:, 0] for net, rows in zip(alone, x, strict=True)]
    torch.testing.assert_close(together, torch.stack(expected), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_answers_with_draws_for_each_split(name):
    x, y = linear_data(2, 30, 0.5)
    method = METHODS[name]
    config = CONFIG | {"n_steps": 4, "grid": list(method.grid[:2])}
    found = choose_and_predict(method, x, y, x[:, :7], (1.0, 2.0), config, gen())
    n_draws = {"MAP": 1, "D.E": 5}.get(name, CONFIG["n_samples"])
    assert found.draws.shape == (n_draws, 2, 7)
    assert found.draws.isfinite().all()
    if n_draws > 1:
        assert not torch.allclose(found.draws[0], found.draws[1])


def _fake_set(y_shift):
    """A set of the shape of yacht; targets of the first split's test rows are shifted."""
    generator = gen()
    x = torch.randn(80, 6, generator=generator).double()
    y = x[:, 0] + 0.1 * torch.randn(80, generator=generator).double()
    test_rows = torch.from_numpy(splits(80, 1)[0][1])
    y[test_rows] += y_shift
    return datasets.Regression("yacht", x, y, ("",) * 6, "", "")


def test_test_targets_change_scores_and_nothing_else(monkeypatch):
    seen = []

    def spy(*args):
        seen.append(choose_and_predict(*args))
        return seen[-1]

    monkeypatch.setattr(experiment, "choose_and_predict", spy)
    trial = trials("paper")[0]
    config = dict(trial.config) | CONFIG | {"n_splits": 1, "method": "VD"}
    config["grid"] = [{"kl_weight": 1.0}, {"kl_weight": 0.01}]
    measured = []
    for shift in (0.0, 100.0):
        monkeypatch.setattr(experiment, "uci", lambda name, shift=shift: _fake_set(shift))
        measured.append(experiment.run(experiment.Trial(config, seed=0)))
    first, second = seen
    torch.testing.assert_close((first.draws, first.taus), (second.draws, second.taus))
    for name in ("point", "tau", "kl_weight"):
        assert measured[0].arrays[name] == pytest.approx(measured[1].arrays[name])
    assert measured[1].arrays["rmse"][0] > measured[0].arrays["rmse"][0] + 50


def test_the_small_sets_and_the_dropout_family_come_first():
    first = [(trial.config["data"], trial.config["method"]) for trial in trials("paper")[:12]]
    assert first == [(data, method) for method in FIRST for data in SMALL]


@pytest.mark.parametrize("method", BASELINES)
def test_every_set_has_what_structure_and_noise_are_compared_with(method):
    config = [trial.config for trial in trials("paper")]
    assert {c["data"] for c in config if c["method"] == method} == set(TAU_GRIDS)


def test_every_grid_is_of_the_method_and_reaches_the_record():
    for trial in trials("paper"):
        method = METHODS[trial.config["method"]]
        assert trial.config["grid"]
        assert all(point in method.grid for point in trial.config["grid"])
        assert trial.config["data"] not in LARGE or len(trial.config["grid"]) <= len(method.grid)
        json.dumps(trial.config, allow_nan=False)


def test_the_published_tables_have_every_cell():
    for data in PUBLISHED_NAMES:
        for method in PUBLISHED_METHODS:
            for score in ("rmse", "log_likelihood"):
                assert published(data, method, score)


def fake_record(data, method, rmse, likelihood):
    """A record of a unit of the paper scale with three splits around the given values."""
    trial = next(
        u for u in trials("paper") if (u.config["data"], u.config["method"]) == (data, method)
    )
    arrays = {
        "rmse": [rmse - 0.1, rmse, rmse + 0.1],
        "log_likelihood": [likelihood - 0.1, likelihood, likelihood + 0.1],
        "point": [0, 0, 1],
        "tau": [1.0, 2.0, 3.0],
    }
    means = {"rmse": rmse, "log_likelihood": likelihood, "log_likelihood_grid_tau": likelihood - 1}
    metrics = means | {f"{name}_error": 0.05 for name in means}
    metrics |= {"ms_alone": 2.0, "ms_side_by_side": 0.1, "n_side_by_side": 100}
    return make_record(
        "uci",
        "paper",
        trial.config,
        0,
        metrics,
        arrays=arrays,
        seconds=1.0,
        device=torch.device("cpu"),
    )


def test_the_report_keeps_rows_where_vsd_loses_and_says_what_is_missing():
    records = [
        fake_record("yacht", "VSD", 0.9, -1.5),
        fake_record("yacht", "MCD", 0.7, -1.5),
        fake_record("yacht", "VD", 1.3, -1.5),
    ]
    page = experiment.table(records)
    assert "VSD is better than VD on Yacht; it is worse than MCD on Yacht." in page
    assert "| MCD | ours | 0.70 ± 0.05 |" in page
    assert "|  | published | 0.72 ± 0.05 |" in page
    assert "| VMG | ours | – |" in page
    assert "| VSD | 100 | 2.00 | 0.100 | 20.0 |" in page
    assert "kl_weight 1: 2, kl_weight 0.1: 1" in page
    assert "Missing, by" in page
    assert "BBB on Yacht" in page
    assert "VSD on Yacht" not in page.split("Missing, by")[1]


def test_the_figure_has_a_pair_of_axes_for_each_set():
    records = [fake_record("yacht", "VSD", 0.9, -1.5), fake_record("kin8nm", "MCD", 0.1, 1.0)]
    assert len(experiment.figure(records).axes) == 4


def test_taus_reach_beyond_every_published_choice():
    assert min(TAUS) < 1
    assert max(TAUS) > 5e4
