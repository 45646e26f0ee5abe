from __future__ import annotations

import importlib.util

import pytest
import torch

from bdl_lessons import datasets
from bdl_lessons.core.files import DATA
from bdl_lessons.datasets import GAL_SPAN, detrended
from tests.tables import refused

NAME = "co2_mauna_loa_monthly.csv"
COMMITTED = DATA / "co2" / NAME


_SPEC = importlib.util.spec_from_file_location("make_co2", DATA / "co2" / "make_co2.py")
make_co2 = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(make_co2)


@pytest.fixture
def series():
    return datasets.co2()


def test_the_committed_file_is_what_the_script_makes():
    if importlib.util.find_spec("statsmodels") is None:
        pytest.skip("statsmodels is not installed: cannot regenerate the CO2 series")
    assert make_co2.render(make_co2.weekly_source()).encode() == COMMITTED.read_bytes()


def test_the_series(series):
    assert series.times.dtype == series.ppm.dtype == torch.float64
    assert series.times.shape == series.ppm.shape == (521,)
    assert (series.times.diff() > 0).all()
    gaps = (series.times.diff() > 1.5 / 12).nonzero().ravel()
    assert [round(series.times[i].item(), 1) for i in gaps] == [1958.4, 1958.7, 1964.0]
    assert series.ppm[0] == 316.1
    assert 370 < series.ppm[-1] < 372


def test_detrended_is_standardised_without_trend_and_invertible(series):
    d = detrended(series, 1970, 1990)
    assert d.x.shape == (240, 1)
    x = d.x[:, 0]
    for value, expected in ((x.mean(), 0), (d.y.mean(), 0), ((x * d.y).mean(), 0)):
        assert value.item() == pytest.approx(expected, abs=1e-10)
    assert x.square().mean().item() == pytest.approx(1)
    assert d.y.square().mean().item() == pytest.approx(1)
    chosen = (series.times >= 1970) & (series.times < 1990)
    torch.testing.assert_close(d.to_years(x), series.times[chosen])
    torch.testing.assert_close(d.to_ppm(x, d.y), series.ppm[chosen])
    torch.testing.assert_close(d.to_y(x, series.ppm[chosen]), d.y)
    torch.testing.assert_close(d.to_x(series.times[chosen]), x)


test_bad_spans = refused(
    (lambda: detrended(datasets.co2(), 1990, 1970), "below"),
    (lambda: detrended(datasets.co2(), 1990, 1990.1), "only 1 months"),
    (lambda: detrended(datasets.co2(), float("nan"), 1990), "below"),
    (lambda: detrended(datasets.co2(), 2050, 2060), "covers 1958.24 to 2001.95"),
)


def test_gal_span_are_the_272_months_of_the_paper(series):
    d = detrended(series, *GAL_SPAN)
    assert len(d.x) == 272
    assert d.to_years(d.x)[-1].item() == pytest.approx(1981 + 2.5 / 12, abs=0.02)


def test_times_of_another_shape_are_refused():
    made = datasets.detrended(datasets.co2())
    for x, y in ((made.x, made.y), (made.x[:, 0], made.y[:, None])):
        for function in (made.to_ppm, made.to_y):
            with pytest.raises(ValueError, match="x has shape"):
                function(x, y)
    assert made.to_ppm(made.x[:, 0], made.y.expand(3, -1)).shape == (3, len(made.y))
