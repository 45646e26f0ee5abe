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
    before_a_gap = SERIES.times[:-1][SERIES.times.diff() > 1.5 / 12]
    assert [round(time, 1) for time in before_a_gap.tolist()] == [1958.4, 1958.7, 1964.0]
    assert SERIES.ppm[0] == 316.1
    assert 370 < SERIES.ppm[-1] < 372


def test_detrended_is_standardised_without_trend_and_invertible():
    months = detrended(SERIES, 1970, 1990)
    assert months.x.shape == (240, 1)
    x = months.x[:, 0]
    y = months.y
    for mean in (x.mean(), y.mean(), (x * y).mean()):
        assert mean.item() == pytest.approx(0, abs=1e-10)
    assert x.square().mean().item() == pytest.approx(1)
    assert y.square().mean().item() == pytest.approx(1)

    is_inside = (SERIES.times >= 1970) & (SERIES.times < 1990)
    times = SERIES.times[is_inside]
    ppm = SERIES.ppm[is_inside]
    torch.testing.assert_close(months.to_years(x), times)
    torch.testing.assert_close(months.to_ppm(x, y), ppm)
    torch.testing.assert_close(months.to_y(x, ppm), y)
    torch.testing.assert_close(months.to_x(times), x)


def test_a_span_holds_the_month_at_its_start_and_not_the_one_at_its_end():
    months = detrended(SERIES, start=SERIES.times[100].item(), end=SERIES.times[110].item())
    torch.testing.assert_close(months.to_years(months.x[:, 0]), SERIES.times[100:110])


def test_gal_span_are_the_272_months_of_the_paper():
    months = detrended(SERIES, *GAL_SPAN)
    assert len(months.x) == 272
    last = months.to_years(months.x)[-1]
    assert last.item() == pytest.approx(1981 + 2.5 / 12, abs=0.02)
    three_curves = months.y.expand(3, -1)
    assert months.to_ppm(months.x[:, 0], three_curves).shape == (3, 272)


WHOLE = detrended(SERIES)

test_bad_spans_and_times_of_another_shape_are_refused = refused(
    (lambda: detrended(SERIES, 1990, 1970), "below"),
    (lambda: detrended(SERIES, float("nan"), 1990), "below"),
    (lambda: detrended(SERIES, 2050, 2060), "only 0 months .* covers 1958.24 to 2001.95"),
    (lambda: WHOLE.to_ppm(WHOLE.x, WHOLE.y), "x has shape"),
    (lambda: WHOLE.to_y(WHOLE.x, WHOLE.y), "x has shape"),
)
