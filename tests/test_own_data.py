"""docs/own_data.md: every block runs as it stands, and what the page says holds on other data."""

import re
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_wine
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, gaussian_nll_loss

from bdl_lessons.datasets import Standardiser, UCIResults, load_records
from bdl_lessons.evaluation import ece, log_mean_probs, nll, predictive_var
from bdl_lessons.inference import BatchedNetworks, adam, fit, fit_batched, predict, predict_batched
from bdl_lessons.models import BinaryDropout, Deterministic, initialise, mlp, wrap
from bdl_lessons.probability import gaussian_nll
from tests.draws import seeded

PAGE = Path(__file__).resolve().parents[1] / "docs" / "own_data.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def run(blocks, **names):
    """The names after each block, in order; ``names`` are known before the first."""
    states = []
    threads = torch.get_num_threads()
    try:
        for block in blocks:
            exec(compile(block, PAGE.name, "exec"), names)
            states.append(dict(names))
    finally:
        torch.set_num_threads(threads)
        plt.close("all")
    return states


def index_of(text):
    (number,) = [number for number, block in enumerate(BLOCKS) if text in block]
    return number


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("own_data"))
        return run(BLOCKS)


def after(states, text):
    return states[index_of(text)]


def test_every_block_runs_and_regression_comes_back_in_euros(states):
    assert len(states) == len(BLOCKS)
    end = after(states, "log_density = log_density_2")
    error = end["rent"] - end["mean"]
    assert error.square().mean().sqrt() < 0.7 * end["rent"].std()
    assert 0.8 < ((error / end["std"]).abs() < 1.645).double().mean() < 0.98
    in_std = end["log_density"] + end["targets"].std.log().sum()
    torch.testing.assert_close(in_std.float(), end["log_density_2"].float())
    normal = torch.distributions.Normal(end["mean"], end["std"])
    in_euros = normal.log_prob(end["rent"]).sum(-1)
    assert (in_euros.mean() - end["log_density"].mean()).abs() < 0.1


def test_what_is_loaded_and_what_goes_by_blocks_predicts_as_before(states):
    before = after(states, "log_density = log_density_2")
    end = states[-1]
    n_rows = len(before["mean"])
    assert end["mean"].shape == (20 * n_rows, 1)
    torch.testing.assert_close(end["mean"][:n_rows], before["mean"], rtol=0.2, atol=30)
    torch.testing.assert_close(end["std"][-n_rows:], before["std"], rtol=0.2, atol=30)
    loaded = after(states, "joblib.load")
    for name, value in before["net_2"].state_dict().items():
        torch.testing.assert_close(loaded["net_2"].state_dict()[name], value)


def test_numbers_are_standardised_before_they_are_rounded():
    """Time stamps a minute apart: float32 would lose them."""
    rounded = [line for block in BLOCKS for line in block.splitlines() if ".float()" in line]
    tables = [line for line in rounded if "pixels" not in line]
    assert len(tables) >= 3
    assert all(".transform(" in line for line in tables)


@pytest.mark.parametrize("seed", [1, 2])
def test_one_tau_covers_on_average_and_two_outputs_in_every_quarter(seed):
    last = index_of("level = min(")
    blocks = [
        re.sub(r"(default_rng|manual_seed)\(0\)|(random_state=)0", rf"\1\2({seed})", block)
        for block in BLOCKS[: last + 1]
    ]
    states = run(blocks)
    one_tau = after(states, "def coverage")
    assert 0.84 < one_tau["overall"] < 0.96
    assert one_tau["by_size"].iloc[0] > 0.96
    assert 0.6 < one_tau["by_size"].iloc[-1] < 0.86
    line = after(states, "line = LinearRegression")
    assert 0.84 < line["line_holds"] < 0.97
    two_outputs = after(states, "log density: {")
    assert 0.84 < two_outputs["overall"] < 0.96
    assert two_outputs["by_size"].between(0.78, 1).all()
    gain = two_outputs["log_density_2"].mean() - one_tau["log_density_z"].mean()
    assert gain > 0.05
    by_reach = states[last]
    assert by_reach["n_val"] == 400
    assert 0.83 < by_reach["overall"] < 0.965, "three standard deviations of two tables of 400"


def test_the_section_on_classes_needs_imports_and_preparation_alone():
    first = index_of('"generator": g}\nrng = ')
    last = index_of("100 rows against the validation rows")
    preparation = BLOCKS[index_of("def preparation")].split("\n\n\n")[0]
    end = run([BLOCKS[0], preparation, *BLOCKS[first : last + 1]])[-1]
    assert 0 < end["is_answered"].double().mean() < 1


def test_the_search_pairs_splits_and_its_winner_is_behind_by_nothing(states):
    for text in ("1, partial(gaussian_nll, tau=2.0)", "minus_nll, settings)"):
        end = after(states, text)
        table = end["by_split"]
        rows = end["compared"](table, end["settings"])
        assert table.shape == (5, 9)
        assert (rows["behind"] >= 0).all()
        assert rows["behind"].iloc[0] == 0
        assert (rows["error"].iloc[1:] > 0).all()


def test_a_process_of_few_rows_covers(states):
    assert 0.82 < after(states, "process = Gaussian")["gp_holds"] < 0.97


@pytest.mark.parametrize("seed", [1, 2])
def test_a_temperature_mends_the_plain_network_and_the_rule_saves_costs(seed):
    first = index_of("make_classification(\n")
    last = index_of("100 rows against the validation rows")
    preparation = index_of("def preparation")
    blocks = [*BLOCKS[: preparation + 1], *BLOCKS[first : last + 1]]
    g = torch.Generator().manual_seed(seed)
    names = {
        "g": g,
        "training": {
            "n_steps": 500,
            "batch_size": 64,
            "optimizer": adam(1e-2),
            "generator": g,
        },
        "method": [Deterministic, partial(BinaryDropout, p_drop=0.1)],
    }
    blocks = [block.replace("random_state=0", f"random_state={seed}") for block in blocks]
    end = run(blocks, **names)[-1]
    y_test = end["y_test"]
    assert 1.1 < end["plain_temperature"] < 1.9
    assert 0.7 < end["temperature"] < 1.5
    plain = end["plain_logits"].log_softmax(-1)
    assert nll(end["plain_probs"].log(), y_test) < nll(plain, y_test)
    assert ece(end["probs"], y_test) < 0.06
    rule = end["mean_cost"](end["decisions"], y_test, 10, 2)
    assert rule < end["mean_cost"](end["probs"].argmax(-1), y_test, 10, 2)
    assert rule < 2
    assert end["saved"].mean() > 2 * end["saved_error"]
    assert end["auroc"] > 0.55
    assert end["usual"] < end["seldom"] < 0.06
    assert end["is_unlike"].all()
    assert end["answered"] > 0.4, "far away the rule alone would answer"
    assert end["left"] == 0


def splits(load, n_train, seeds):
    data = load()
    parts = []
    for seed in seeds:
        order = torch.randperm(len(data.data), generator=seeded(seed)).numpy()
        chosen = order[:n_train]
        scale = Standardiser.fit(data.data[chosen])
        x = scale.transform(data.data[order]).float()
        parts.append((x, torch.from_numpy(data.target[order])))
    x, y = (torch.stack(part) for part in zip(*parts, strict=True))
    return x[:, :n_train], y[:, :n_train], x[:, n_train:], y[:, n_train:]


@pytest.mark.parametrize(
    ("load", "n_train", "sign"), [(load_breast_cancer, 400, -1), (load_wine, 120, 1)]
)
def test_the_weight_of_the_kl_matters_on_both_sides(load, n_train, sign):
    weights = torch.tensor([1.0, 0.1]).repeat_interleave(4)
    x, y, x_new, y_new = (
        part.repeat(2, *[1] * (part.dim() - 1)) for part in splits(load, n_train, range(4))
    )
    generator = seeded(0)
    method = partial(BinaryDropout, p_drop=0.1)
    widths = (x.shape[-1], 50, 1 + int(y.max()))
    networks = BatchedNetworks([initialise(mlp(widths, method), generator) for _ in weights])
    fit_batched(
        networks,
        x,
        y,
        cross_entropy,
        n_steps=1000,
        batch_size=64,
        kl_weight=weights,
        generator=generator,
        optimizer=adam(1e-2),
    )
    draws = predict_batched(networks, x_new, 50, generator=generator)
    scores = torch.tensor([nll(log_mean_probs(draws[:, k]), y_new[k]) for k in range(8)])
    difference = scores[:4].mean() - scores[4:].mean()
    assert 0 < sign * difference < 0.06


RESULTS = UCIResults(load_records("uci"))


def chosen(method, key):
    """What each split chose of a setting, by data set."""
    return {
        record["config"]["data"]: [
            record["config"]["grid"][k][key] for k in record["arrays"]["point"]
        ]
        for record in RESULTS.of(method)
    }


def test_the_records_say_what_the_table_of_choices_says():
    rates = {data: np.array(values) for data, values in chosen("MCD", "p_drop").items()}
    mostly_small = {data for data, values in rates.items() if (values <= 0.01).mean() > 0.5}
    assert len(rates) == 8
    boston_and_wine = {"bostonHousing", "wine-quality-red"}
    assert set(rates) - mostly_small == boston_and_wine
    assert {rates[data].max() for data in boston_and_wine} == {0.2}
    for method in ("VD", "VSD"):
        weights = np.concatenate(list(chosen(method, "kl_weight").values()))
        assert (weights <= 0.1).mean() > 0.9
    likelihood = {
        (method, data): value[0]
        for method in RESULTS.methods
        for data in RESULTS.recorded_sets
        if (value := RESULTS.ours(data, method, "log_likelihood"))
    }
    processes = {data for method, data in likelihood if method == "GP"}
    assert len(processes) == 4
    for data in processes:
        best = max((value, method) for (method, on), value in likelihood.items() if on == data)
        assert best[1] == "GP"


X = torch.randn(40, 3, generator=seeded())
Y = X.sum(1, keepdim=True)
LABELS = torch.arange(40) % 3
DROPOUT = partial(BinaryDropout, p_drop=0.1)


def network(n_outputs=1):
    return mlp((3, 5, n_outputs), DROPOUT)


def trained(x, y, n_outputs=1, **other):
    nll_of = cross_entropy if n_outputs > 1 else partial(gaussian_nll, tau=1.0)
    options = {"n_steps": 2, "optimizer": adam(1e-2), "generator": seeded()} | other
    return fit(network(n_outputs), x, y, nll_of, **options)


def norm_network():
    return wrap(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Linear(2, 1)), DROPOUT)


def draws(n_outputs):
    return predict(network(n_outputs), X, 5, generator=seeded())


def asks_for_a_value(output, y):
    mean, log_var = output.chunk(2, dim=-1)
    return gaussian_nll_loss(mean, y, log_var.exp())


def asks_for_none(output, y):
    mean, log_var = output.chunk(2, dim=-1)
    return 0.5 * (log_var + (y - mean).square() * (-log_var).exp()).mean()


def trained_together(loss):
    networks = BatchedNetworks([network(2), network(2)])
    options = {"n_steps": 2, "optimizer": adam(1e-2), "generator": seeded()}
    return fit_batched(networks, X.expand(2, -1, -1), Y.expand(2, -1, -1), loss, **options)


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 2)
        self.second = nn.Linear(2, 1)


TOWNS = pd.DataFrame({"area": [50.0, 60.0, 70.0, np.nan], "town": ["Bonn", "Jena", "Kiel", "Kiel"]})
SLIPS = {
    "x must be numbers, got other values": (
        lambda: Standardiser.fit(TOWNS),
        lambda: Standardiser.fit(TOWNS[["area"]].dropna()),
    ),
    "x must be finite, it has a NaN at row 3": (
        lambda: Standardiser.fit(TOWNS[["area"]]),
        lambda: Standardiser.fit(TOWNS[["area"]].dropna()),
    ),
    "x must be a tensor of real numbers": (
        lambda: trained(X.double().numpy(), Y),
        lambda: trained(torch.from_numpy(X.double().numpy()).float(), Y),
    ),
    "x must have the dtype and device": (
        lambda: trained(X.double(), Y),
        lambda: trained(X.double().float(), Y),
    ),
    "output has shape": (lambda: trained(X, Y[:, 0]), lambda: trained(X, Y[:, 0][:, None])),
    "y must be labels": (
        lambda: trained(X, LABELS + 1, 3),
        lambda: trained(X, LABELS + 1 - 1, 3),
    ),
    "batch_size must be in": (
        lambda: trained(X, Y, batch_size=64),
        lambda: trained(X, Y),
    ),
    "the loss became nan at step 0": (
        lambda: trained(X.where(X < 1, torch.nan), Y),
        lambda: trained(X[(X < 1).all(1)], Y[(X < 1).all(1)]),
    ),
    "vmap: It looks like": (
        lambda: trained_together(asks_for_a_value),
        lambda: trained_together(asks_for_none),
    ),
    "tau is one number": (
        lambda: predictive_var(draws(3), 1.0),
        lambda: log_mean_probs(draws(3)).exp(),
    ),
    "probs must be >= 0 and sum to 1": (
        lambda: ece(draws(3)[0], LABELS),
        lambda: ece(log_mean_probs(draws(3)).exp(), LABELS),
    ),
    "model must be Network": (
        lambda: fit(
            nn.Linear(3, 1), X, Y, cross_entropy, n_steps=1, optimizer=adam(1.0), generator=seeded()
        ),
        lambda: wrap(nn.Sequential(nn.Linear(3, 1)), DROPOUT),
    ),
    "model must be an nn.Sequential": (
        lambda: wrap(Stack(), DROPOUT),
        lambda: wrap(nn.Sequential(*Stack().children()), DROPOUT),
    ),
    "model has nn.Dropout at '1'": (
        lambda: wrap(nn.Sequential(nn.Linear(3, 2), nn.Dropout(), nn.Linear(2, 1)), DROPOUT),
        lambda: wrap(nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1)), DROPOUT),
    ),
    "model has a batch norm": (
        lambda: predict(norm_network(), X, 5, generator=seeded()),
        lambda: predict(norm_network().eval(), X, 5, generator=seeded()),
    ),
}
ROWS = re.findall(r"^\| `([^`]+)` \|", TEXT[TEXT.index("## What you may see") :], re.MULTILINE)


def test_every_message_of_the_page_is_tried():
    assert len(ROWS) == len(SLIPS)


@pytest.mark.parametrize("row", ROWS)
def test_a_message_of_the_page_appears_and_its_remedy_works(row):
    ((slip, remedy),) = [pair for start, pair in SLIPS.items() if row.startswith(start)]
    start = re.match(r"[^0-9\[…]+", row)[0].strip()
    errors = (TypeError, ValueError, FloatingPointError, RuntimeError)
    with pytest.raises(errors, match=re.escape(start)):
        slip()
    remedy()


@pytest.mark.parametrize(
    ("wrong", "remedy"),
    [
        (LABELS.double(), Tensor.long),
        (LABELS.float(), Tensor.long),
        (LABELS.int(), Tensor.long),
        (LABELS[:, None], lambda y: y.squeeze(1)),
        (LABELS + 1, lambda y: y - 1),
    ],
    ids=["float64, as pandas has them", "float", "int32", "a column", "from 1"],
)
def test_labels_that_cross_entropy_cannot_take_are_refused_and_mended(wrong, remedy):
    with pytest.raises(ValueError, match=r"y must be labels .*y\.long.*y\.squeeze.*y - 1"):
        trained(X, wrong, 3)
    trained(X, remedy(wrong), 3)
