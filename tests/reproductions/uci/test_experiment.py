import json
import math
from dataclasses import replace
from functools import partial

import pytest
import torch

from bdl_lessons.datasets import UCI_SETS
from bdl_lessons.evaluation import log_predictive_likelihood
from bdl_lessons.inference import adam, fit
from bdl_lessons.models import Deterministic, initialise, mlp
from bdl_lessons.probability import gaussian_nll
from reproductions.experiment import TrialResult
from reproductions.records import make_record
from reproductions.uci import experiment
from reproductions.uci.methods import METHODS, Method, Task
from reproductions.uci.protocol import TAUS, choose_and_predict, log_likelihood
from reproductions.uci.trials import CORE, LARGE, trials

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


def knows(task):
    """Knows the targets, the first feature, up to an error that its points make.

    ``new[split][point]`` on rows it was not trained on, and on its training rows the reverse: what
    is best there is worst elsewhere. In standard deviations of the targets, its sign alternates.
    """
    new = torch.tensor([[0.1, 0.4], [0.4, 0.2], [0.3, 0.05]])
    at = [(member % 3, int(point["kl_weight"])) for member, point in enumerate(task.points)]
    errors = torch.stack([new[split, [point, 1 - point]] for split, point in at])

    def predict(rows, n_samples, generator):
        seen = (rows[:, :, None, 0] - task.x[:, None, :, 0]).abs().amin(-1) < 1e-6
        error = torch.where(seen, errors[:, 1:], errors[:, :1])
        sign = 1 - 2 * (torch.arange(rows.shape[1]) % 2)
        return (rows[..., 0] + sign * error).expand(n_samples, -1, -1)

    return predict


def test_each_split_chooses_by_its_own_held_out_rows():
    """The rows that choose prefer another point than those that train, and in split 0 another."""
    y = 30 + 7 * torch.randn(3, 100, generator=gen()).double()
    x = torch.stack([y, y.square()], -1)
    config = CONFIG | {"grid": [{"kl_weight": 0.0}, {"kl_weight": 1.0}]}
    tau_grid = (0.01, 1.0, 10.0)
    found = choose_and_predict(
        Method(knows), x[:, :80], y[:, :80], x[:, 80:], tau_grid, config, gen()
    )
    assert found.points == [0, 1, 1]
    y_var = y[:, :64].var(1, correction=0)
    taus = 1 / torch.tensor([0.1, 0.2, 0.05]).square()
    assert (found.taus * y_var / taus).tolist() == pytest.approx([1] * 3, rel=0.2)
    torch.testing.assert_close(found.kl_weights, torch.tensor([0, 1, 1]) * found.taus * y_var)
    assert found.grid_taus.tolist() == [1.0, 1.0, 10.0]  # taus / y_var are near 2, 0.5, 8


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


@pytest.mark.parametrize(("name", "n_networks"), [("MAP", 1), ("D.E", 5)])
def test_side_by_side_is_one_at_a_time(name, n_networks):
    x, y = torch.randn(3, 16, 4, generator=gen()), torch.randn(3, 16, generator=gen(1))
    points = [{"kl_weight": weight} for weight in (0.0, 0.1, 10.0)]
    predict = METHODS[name].train(Task(points, x, y, CONFIG, gen()))
    together, generator = predict(x, 1, gen()), gen()
    alone = [initialise(mlp((4, 8, 1), Deterministic()), generator) for _ in n_networks * points]
    for member, network in enumerate(alone):
        fit(
            network,
            x[member % 3],
            y[member % 3][:, None],
            partial(gaussian_nll, tau=1.0),
            kl_weight=points[member % 3]["kl_weight"],
            n_steps=CONFIG["n_steps"],
            generator=generator,
            optimizer=adam(CONFIG["learning_rate"]),
            schedule=lambda step: (1 + math.cos(math.pi * step / CONFIG["n_steps"])) / 2,
        )
    expected = [net(x[member % 3], "mean")[:, 0] for member, net in enumerate(alone)]
    expected = torch.stack(expected).unflatten(0, (n_networks, 3))
    torch.testing.assert_close(together, expected, atol=1e-5, rtol=1e-4)


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


def test_every_set_has_the_core_of_the_comparison_by_one_protocol():
    """The large sets differ by longer training, larger batches and a grid that goes on."""
    on = {}
    for trial in trials("paper"):
        config = dict(trial.config)
        on.setdefault(config.pop("data"), {})[config["method"]] = config
    assert on.keys() == UCI_SETS.keys()
    for data, by_method in on.items():
        for method in CORE:
            config, small = by_method[method], on["yacht"][method]
            varied = {"grid", "n_steps", "batch_size"} if data in LARGE else set()
            assert {k for k in config if config[k] != small[k]} == varied
            assert all(point in config["grid"] for point in small["grid"])


def test_every_grid_is_of_the_method_and_reaches_the_record():
    for trial in trials("paper"):
        assert trial.config["grid"]
        assert all(p in METHODS[trial.config["method"]].grid for p in trial.config["grid"])
        json.dumps(trial.config, allow_nan=False)


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
    return make_record(
        "uci", "paper", trial, TrialResult(metrics, arrays), 1.0, torch.device("cpu")
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
    assert "| VSD | Yacht | kl_weight 1: 2, kl_weight 0.1: 1 | 2 of 3 | 2 |" in page
    assert "Yacht 2,000 steps of batch 32 (231 epochs)" in page
    assert "Missing, by" in page
    assert "BBB on Yacht" in page
    assert "VSD on Yacht" not in page.split("Missing, by")[1]


def test_a_set_without_published_scores_is_shown_with_its_own_digits(monkeypatch):
    new = replace(UCI_SETS["yacht"], name="protein", display_name="Protein", digits=3)
    monkeypatch.setitem(UCI_SETS, "protein", new)
    record = fake_record("yacht", "VSD", 0.9, -1.5)
    record["config"] = {**record["config"], "data": "protein"}
    page = experiment.table([record])
    assert "| method |  | Protein |" in page
    assert "| VSD | ours | 0.900 ± 0.050 |\n|  | published | – |" in page
    assert len(experiment.figure([record]).axes) == 2


def test_the_figure_has_a_pair_of_axes_for_each_set():
    records = [fake_record("yacht", "VSD", 0.9, -1.5), fake_record("kin8nm", "MCD", 0.1, 1.0)]
    assert len(experiment.figure(records).axes) == 4


def test_taus_reach_beyond_every_published_choice():
    assert min(TAUS) < 1
    assert max(TAUS) > 5e4


def test_vsd_is_held_against_the_rivals_it_is_published_to_beat():
    """On Yacht it is published ahead of all of them."""
    records = [
        fake_record("yacht", "VSD", 0.9, -1.5),
        fake_record("yacht", "VD", 1.3, -1.5),
        fake_record("yacht", "BBB", 0.6, -1.5),
        fake_record("yacht", "MCD", 1.9, -1.5),
    ]
    rmse, likelihood = experiment.claims(records)
    assert (rmse.holds, rmse.of, rmse.verdict) == (2, 3, "in part")
    assert "clearly better 2 times, clearly worse 1 times" in rmse.ours
    assert (likelihood.holds, likelihood.of) == (0, 3)
