"""The registry of methods."""

from collections import Counter
from typing import get_args

import pytest
from torch import nn

import bdl_lessons.models as models
from reproductions import methods
from reproductions.images import classification
from reproductions.uci import experiment as uci


def test_every_method_of_the_package_is_tested_as_a_layer():
    """A method that is exported and stands in no row would meet none of the common tests."""
    rows = {method.layer_class for method in methods.METHODS if method.common_tests}
    exported = {
        value
        for value in vars(models).values()
        if isinstance(value, type) and issubclass(value, models.StochasticLayer)
    }
    assert exported - {models.StochasticLayer, models.UnitNoise, models.WeightNoise} <= rows


@pytest.mark.parametrize("table", get_args(methods.Table))
def test_a_name_stands_once_in_a_table(table):
    names = [getattr(method, table) for method in methods.METHODS if getattr(method, table)]
    assert max(Counter(names).values()) == 1
    assert list(methods.in_table(table)) == names or table == "uci"


def test_every_method_has_a_name_of_its_own_and_its_turn_on_the_uci_sets():
    assert len({method.name for method in methods.METHODS}) == len(methods.METHODS)
    turns = [method.uci_turn for method in methods.METHODS if method.uci]
    assert max(Counter(turns).values()) == 1


def test_settings_that_a_method_has_are_taken_and_others_are_not():
    vsd = methods.in_table("images")["VSD T=2"]
    settings = {"p_drop": 0.3, "learning_rate": 1.0, "n_pseudo": 7}
    layer = vsd.configured(settings)(nn.Linear(1000, 2))
    assert layer.log_alpha.mean().exp().item() == pytest.approx(0.3 / 0.7, rel=0.05)
    assert len(layer.householder_vectors()) == 2
    layer = vsd.configured({})(nn.Linear(1000, 2))
    assert layer.log_alpha.mean().exp().item() == pytest.approx(0.2 / 0.8, rel=0.05)


@pytest.mark.parametrize(
    ("table", "measured"),
    [
        ("uci", {trial.config["method"] for trial in uci.trials("paper")}),
        ("images", {trial.config["method"] for trial in classification.trials("paper")}),
    ],
)
def test_a_row_of_the_registry_has_its_trials(table, measured):
    assert set(methods.in_table(table)) <= measured
