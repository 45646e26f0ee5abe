import math

import numpy as np
import pytest

from bdl_lessons.datasets import load_records
from bdl_lessons.datasets.records import UCIResults, published_table, where
from reproductions.uci import published_gaps, shift, shift_report
from reproductions.uci.shift_report import AUROC, LIKELIHOOD, Setting, ShiftResults

STUDENT_19 = 2.093
"""97.5 % of Student's distribution with 19 degrees of freedom are below; from a table."""
CORRECTION = math.sqrt(1 / 20 + 1 / 9)
STANDARD = Setting(kl_weight=0.001)


def record(method, values, data="yacht", **options):
    """A record whose scores at the first weight are ``values``, ``(R, S)``, at the second 0."""
    trial = shift.equal_trial(data, method, **options)
    n_weights = len(trial.config["grid"])
    array = np.zeros((n_weights, *np.shape(values)))
    array[0] = values
    arrays = {AUROC.name: array.tolist(), LIKELIHOOD.name: array.tolist()}
    return {"config": dict(trial.config), "seed": 0, "arrays": arrays}


def per_split(seed, n_starts=3):
    return np.random.default_rng(seed).normal(size=(n_starts, 20))


def test_a_difference_is_of_splits_after_the_mean_over_starts():
    independent = per_split(0)
    structured = per_split(1)
    results = ShiftResults([record("VSD, T = 0", independent), record("VSD, T = 2", structured)])
    difference = results.difference("yacht", "VSD, T = 2", STANDARD, AUROC.name)
    of_splits = structured.mean(0) - independent.mean(0)
    assert difference.mean == pytest.approx(of_splits.mean())
    assert difference.corrected_std_error == pytest.approx(of_splits.std(ddof=1) * CORRECTION)
    at_other_weight = Setting(kl_weight=0.01)
    assert results.difference("yacht", "VSD, T = 2", at_other_weight, AUROC.name).mean == 0


@pytest.mark.parametrize(
    ("n_errors", "bold"), [(STUDENT_19 - 0.01, False), (STUDENT_19 + 0.01, True)]
)
def test_a_difference_is_bold_outside_of_students_interval(n_errors, bold):
    noise = per_split(0)
    noise -= noise.mean()
    error = noise.mean(0).std(ddof=1) * CORRECTION
    records = [
        record("VSD, T = 0", np.zeros((3, 20))),
        record("full covariance", noise + n_errors * error),
    ]
    results = ShiftResults(records)
    difference = results.difference("yacht", "full covariance", STANDARD, AUROC.name)
    cell = shift_report._cell(difference, digits=3)
    assert cell.startswith("**") == bold
    assert f"{n_errors * error:+.3f} ± {error:.3f}" in cell
    claims = {claim.statement.split("(")[1]: claim for claim in shift_report.claims(records)}
    claim = claims["with any covariance)"]
    assert (claim.holds, claim.of) == (bold, 2)


@pytest.mark.parametrize(
    "options",
    [
        {"train_share": 0.1},
        {"alpha_spread": 1.0},
        {"sizes": shift._PAPER | {"n_steps": 4000}},
    ],
)
def test_independent_noise_of_another_setting_is_no_partner(options):
    records = [record("VSD, T = 0", per_split(0)), record("VSD, T = 8", per_split(1), **options)]
    results = ShiftResults(records)
    (setting, *_) = shift_report.settings_of(records[1]["config"])
    assert setting != STANDARD
    assert results.difference("yacht", "VSD, T = 8", setting, AUROC.name) is None
    records.append(record("VSD, T = 0", per_split(2), **options))
    results = ShiftResults(records)
    difference = results.difference("yacht", "VSD, T = 8", setting, AUROC.name)
    assert difference.mean == pytest.approx(per_split(1).mean() - per_split(2).mean())


def test_more_steps_on_a_large_set_are_its_standard():
    large = shift.equal_trial("kin8nm", "VSD, T = 0", sizes=shift._LARGE).config
    assert next(iter(shift_report.settings_of(large))) == STANDARD


@pytest.mark.parametrize("score", ["rmse", "log_likelihood"])
def test_a_published_gap_stands_beside_the_smallest_that_could_be_seen(score):
    records = load_records("uci")
    lines = published_gaps.published_gaps(UCIResults(records), score).splitlines()
    columns = [cell.strip() for cell in lines[0].split("|")]
    row = next(line for line in lines if "VSD − MCD" in line).split("|")
    cell = row[columns.index("Energy")].strip()
    printed = {
        row["method"]: row["mean"]
        for row in published_table(f"uci_{score}")
        if row["dataset"] == "Energy"
    }
    gap = printed["VSD"] - printed["MCD"]
    (of_vsd,) = where(records, data="energy", method="VSD")
    (of_mcd,) = where(records, data="energy", method="MCD")
    differences = np.subtract(of_vsd["arrays"][score], of_mcd["arrays"][score])
    smallest = STUDENT_19 * differences.std(ddof=1) * CORRECTION
    assert cell == f"**{gap:+.2f} ({smallest:.2f})**"
    assert "**" not in row[columns.index("Boston")]
