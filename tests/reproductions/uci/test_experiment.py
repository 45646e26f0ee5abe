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
from tests.draws import seeded

CONFIG = {
    "n_hidden": 8,
    "batch_size": 16,
    "n_steps": 12,
    "learning_rate": 0.02,
    "n_samples_val": 4,
    "n_samples": 6,
}


ERRORS = torch.tensor([[0.1, 0.4], [0.4, 0.2], [0.3, 0.05]])
"""Of :func:`knows`, ``(split, point)``, in standard deviations of the targets."""


def knows(_, task):
    """Knows the targets, the first feature, up to an error that its points make.

    ``ERRORS`` on rows it was not trained on, and on its training rows the reverse: what is best
    there is worst elsewhere. The sign alternates from row to row.
    """
    on_new_rows = []
    on_training_rows = []
    for member, point in enumerate(task.points):
        split = member % len(ERRORS)
        number = int(point["kl_weight"])
        on_new_rows.append(ERRORS[split, number])
        on_training_rows.append(ERRORS[split, 1 - number])

    def predict(rows, n_samples, generator):
        distance = (rows[:, :, None, 0] - task.x[:, None, :, 0]).abs().amin(-1)
        was_trained_on = distance < 1e-6
        error = torch.where(
            was_trained_on,
            torch.stack(on_training_rows)[:, None],
            torch.stack(on_new_rows)[:, None],
        )
        sign = 1 - 2 * (torch.arange(rows.shape[1]) % 2)
        return (rows[..., 0] + sign * error).expand(n_samples, -1, -1)

    return predict


def test_each_split_chooses_by_its_own_held_out_rows():
    """The rows that choose prefer another point than those that train, and in split 0 another."""
    y = 30 + 7 * torch.randn(3, 100, generator=seeded()).double()
    x = torch.stack([y, y.square()], -1)
    _, chosen, _ = experiment.choose_and_predict(
        Method("one that knows", uci_training=knows),
        x_train=x[:, :80],
        y_train=y[:, :80],
        x_test=x[:, 80:],
        tau_grid=(0.01, 1.0, 10.0),
        config={**CONFIG, "grid": [{"kl_weight": 0.0}, {"kl_weight": 1.0}]},
        generator=seeded(),
    )
    assert chosen["point"].tolist() == [0, 1, 1]
    y_var = y[:, :64].var(1, correction=0)
    best_errors = torch.tensor([0.1, 0.2, 0.05])
    standardised_tau = chosen["tau"] * y_var
    ratio = standardised_tau * best_errors.square()
    assert ratio.tolist() == pytest.approx([1] * 3, rel=0.2)
    torch.testing.assert_close(chosen["kl_weight"], torch.tensor([0, 1, 1]) * standardised_tau)
    assert chosen["grid_tau"].tolist() == [1.0, 1.0, 10.0]  # the best are near 2, 0.5, 8


def test_side_by_side_is_one_at_a_time():
    x = torch.randn(3, 16, 4, generator=seeded())
    y = torch.randn(3, 16, generator=seeded(1))
    kl_weights = (0.0, 0.1, 10.0)
    points = [{"kl_weight": weight} for weight in kl_weights]
    predict = METHODS["D.E"].train_uci(Task(points, x, y, CONFIG, seeded()))
    together = predict(x, 1, seeded())

    n_networks = 5
    n_steps = CONFIG["n_steps"]
    generator = seeded()
    networks = [initialise(mlp((4, 8, 1), Deterministic), generator) for _ in range(n_networks * 3)]
    alone = []
    for member, network in enumerate(networks):
        split = member % 3
        fit(
            network,
            x[split],
            y[split][:, None],
            partial(gaussian_nll, tau=1.0),
            kl_weight=kl_weights[split],
            n_steps=n_steps,
            generator=generator,
            optimizer=adam(CONFIG["learning_rate"]),
            schedule=lambda step: (1 + math.cos(math.pi * step / n_steps)) / 2,
        )
        alone.append(network(x[split], "mean")[:, 0])
    expected = torch.stack(alone).unflatten(0, (n_networks, 3))
    torch.testing.assert_close(together, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_answers_with_draws_for_each_split(name):
    x = 5 + torch.randn(2, 30, 3, generator=seeded()).double()
    y = 30 + x.sum(-1)
    method = METHODS[name]
    draws, _, _ = experiment.choose_and_predict(
        method,
        x_train=x,
        y_train=y,
        x_test=x[:, :7],
        tau_grid=(1.0, 2.0),
        config={**CONFIG, "n_steps": 4, "grid": list(method.uci_grid[-2:])},
        generator=seeded(),
    )
    n_draws = {"MAP": 1, "D.E": 5}.get(name, CONFIG["n_samples"])
    assert draws.shape == (n_draws, 2, 7)
    assert draws.isfinite().all()
    if n_draws > 1:
        assert not torch.allclose(draws[0], draws[1])


def test_a_set_without_published_scores_is_shown_with_its_own_digits(monkeypatch):
    new = replace(UCI_SETS["yacht"], name="protein", display_name="Protein", digits=3)
    monkeypatch.setitem(UCI_SETS, "protein", new)
    (record,) = where(load_records("uci"), data="yacht", method="VSD")
    record["config"]["data"] = "protein"
    record["metrics"] |= {"rmse": 0.9, "rmse_error": 0.05}
    assert "| VSD | ours | 0.900 ± 0.050 |" in experiment.table([record])
    assert len(experiment.figure([record]).axes) == 2
