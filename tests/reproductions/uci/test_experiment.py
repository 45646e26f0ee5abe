import math
from dataclasses import replace
from functools import partial

import pytest
import torch

from bdl_lessons.datasets import UCI_SETS, load_records
from bdl_lessons.datasets.records import where
from bdl_lessons.inference import adam, fit
from bdl_lessons.models import Deterministic, initialise, mlp
from bdl_lessons.probability import gaussian_nll
from reproductions.methods import Method
from reproductions.uci import experiment
from reproductions.uci.experiment import METHODS
from reproductions.uci.training import Task

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


def knows(_, task):
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
    parts = x[:, :80], y[:, :80], x[:, 80:]
    _, found, _ = experiment.choose_and_predict(
        Method("one that knows", uci_training=knows), *parts, tau_grid, config, gen()
    )
    assert found["point"].tolist() == [0, 1, 1]
    y_var = y[:, :64].var(1, correction=0)
    taus = 1 / torch.tensor([0.1, 0.2, 0.05]).square()
    assert (found["tau"] * y_var / taus).tolist() == pytest.approx([1] * 3, rel=0.2)
    expected = torch.tensor([0, 1, 1]) * found["tau"] * y_var
    torch.testing.assert_close(found["kl_weight"], expected)
    assert found["grid_tau"].tolist() == [1.0, 1.0, 10.0]  # taus / y_var are near 2, 0.5, 8


def test_side_by_side_is_one_at_a_time():
    x = torch.randn(3, 16, 4, generator=gen())
    y = torch.randn(3, 16, generator=gen(1))
    points = [{"kl_weight": weight} for weight in (0.0, 0.1, 10.0)]
    predict = METHODS["D.E"].train_uci(Task(points, x, y, CONFIG, gen()))
    together = predict(x, 1, gen())
    generator = gen()
    alone = [initialise(mlp((4, 8, 1), Deterministic), generator) for _ in 5 * points]
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
    expected = torch.stack(expected).unflatten(0, (5, 3))
    torch.testing.assert_close(together, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_answers_with_draws_for_each_split(name):
    x = 5 + torch.randn(2, 30, 3, generator=gen()).double()
    y = 30 + x.sum(-1)
    method = METHODS[name]
    config = CONFIG | {"n_steps": 4, "grid": list(method.uci_grid[-2:])}
    draws, _, _ = experiment.choose_and_predict(method, x, y, x[:, :7], (1.0, 2.0), config, gen())
    n_draws = {"MAP": 1, "D.E": 5}.get(name, CONFIG["n_samples"])
    assert draws.shape == (n_draws, 2, 7)
    assert draws.isfinite().all()
    if n_draws > 1:
        assert not torch.allclose(draws[0], draws[1])


def test_a_set_without_published_scores_is_shown_with_its_own_digits(monkeypatch):
    new = replace(UCI_SETS["yacht"], name="protein", display_name="Protein", digits=3)
    monkeypatch.setitem(UCI_SETS, "protein", new)
    (record,) = (r for r in load_records("uci") if where([r], data="yacht", method="VSD"))
    record["config"]["data"] = "protein"
    record["metrics"] |= {"rmse": 0.9, "rmse_error": 0.05}
    assert "| VSD | ours | 0.900 ± 0.050 |" in experiment.table([record])
    assert len(experiment.figure([record]).axes) == 2
