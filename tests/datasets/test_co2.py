import importlib.util

import pytest
import torch

from bdl_lessons import datasets
from bdl_lessons.core.files import DATA
from bdl_lessons.datasets import GAL_SPAN, detrended
from tests.tables import refused

COMMITTED = DATA / "co2" / "co2_mauna_loa_monthly.csv"
_SPEC = importlib.util.spec_from_file_location("make_co2", DATA / "co2" / "make_co2.py")
make_co2 = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(make_co2)
SERIES = datasets.co2()


def test_the_committed_file_is_what_the_script_makes():
    if importlib.util.find_spec("statsmodels") is None:
        pytest.skip("statsmodels is not installed: cannot regenerate the CO2 series")
    assert make_co2.render(make_co2.weekly_source()).encode() == COMMITTED.read_bytes()


def test_the_series():
    assert SERIES.times.dtype == SERIES.ppm.dtype == torch.float64
    assert SERIES.times.shape == SERIES.ppm.shape == (521,)
    assert (SERIES.times.diff() > 0).all()
    gaps = (SERIES.times.diff() > 1.5 / 12).nonzero().ravel()
    assert [round(SERIES.times[i].item(), 1) for i in gaps] == [1958.4, 1958.7, 1964.0]
    assert SERIES.ppm[0] == 316.1
    assert 370 < SERIES.ppm[-1] < 372


def test_detrended_is_standardised_without_trend_and_invertible():
    d = detrended(SERIES, 1970, 1990)
    assert d.x.shape == (240, 1)
    x = d.x[:, 0]
    for value, expected in ((x.mean(), 0), (d.y.mean(), 0), ((x * d.y).mean(), 0)):
        assert value.item() == pytest.approx(expected, abs=1e-10)
    assert x.square().mean().item() == pytest.approx(1)
    assert d.y.square().mean().item() == pytest.approx(1)
    chosen = (SERIES.times >= 1970) & (SERIES.times < 1990)
    torch.testing.assert_close(d.to_years(x), SERIES.times[chosen])
    torch.testing.assert_close(d.to_ppm(x, d.y), SERIES.ppm[chosen])
    torch.testing.assert_close(d.to_y(x, SERIES.ppm[chosen]), d.y)
    torch.testing.assert_close(d.to_x(SERIES.times[chosen]), x)


def test_a_span_holds_the_month_at_its_start_and_not_the_one_at_its_end():
    start, end = SERIES.times[100].item(), SERIES.times[110].item()
    months = detrended(SERIES, start, end)
    torch.testing.assert_close(months.to_years(months.x[:, 0]), SERIES.times[100:110])


def test_gal_span_are_the_272_months_of_the_paper():
    d = detrended(SERIES, *GAL_SPAN)
    assert len(d.x) == 272
    assert d.to_years(d.x)[-1].item() == pytest.approx(1981 + 2.5 / 12, abs=0.02)
    assert d.to_ppm(d.x[:, 0], d.y.expand(3, -1)).shape == (3, 272)


WHOLE = detrended(SERIES)

test_bad_spans_and_times_of_another_shape_are_refused = refused(
    (lambda: detrended(SERIES, 1990, 1970), "below"),
    (lambda: detrended(SERIES, float("nan"), 1990), "below"),
    (lambda: detrended(SERIES, 2050, 2060), "only 0 months .* covers 1958.24 to 2001.95"),
    (lambda: WHOLE.to_ppm(WHOLE.x, WHOLE.y), "x has shape"),
    (lambda: WHOLE.to_y(WHOLE.x, WHOLE.y), "x has shape"),
)
