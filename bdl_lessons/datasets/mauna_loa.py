"""Atmospheric CO2 at Mauna Loa, as Gal and Ghahramani (2016) fitted it. Lessons 03 and 05."""

from dataclasses import dataclass

import numpy as np
import torch

from bdl_lessons.core.files import DATA
from bdl_lessons.core.validation import like
from bdl_lessons.datasets.standardiser import Standardiser

GAL_SPAN = (1958.0, 1981.25)
"""March 1958 to March 1981: the 272 months of Gal and Ghahramani (2016), figure 2."""


@dataclass(frozen=True)
class CO2:
    """Monthly means: ``times`` in decimal years and ``ppm``, both float64 ``(N,)``, increasing."""

    times: torch.Tensor
    ppm: torch.Tensor


@dataclass(frozen=True)
class DetrendedCO2:
    """Standardised time ``x`` ``(N, 1)`` and linearly detrended, standardised ``y`` ``(N,)``.

    ``y = (ppm - level - slope * x) / residual_std``; both are float64 with mean 0 and standard
    deviation 1. Nothing is lost: ``to_ppm`` and ``to_years`` lead back.
    """

    x: torch.Tensor
    y: torch.Tensor
    time_scale: Standardiser
    level: float
    slope: float
    residual_std: float

    def to_x(self, years: torch.Tensor) -> torch.Tensor:
        """Decimal years of any shape -> standardised time."""
        return self.time_scale.transform(years)

    def to_years(self, x: torch.Tensor) -> torch.Tensor:
        """Standardised time of any shape -> decimal years."""
        return self.time_scale.inverse_transform(x)

    def to_y(self, x: torch.Tensor, ppm: torch.Tensor) -> torch.Tensor:
        """CO2 in ppm, ``(N,)`` or draws ``(S, N)``, at times ``x (N,)``, else ValueError, -> y."""
        return (ppm - self.level - self.slope * like(ppm, "x", x)) / self.residual_std

    def to_ppm(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Detrended and standardised ``y`` at times ``x`` -> ppm; errors as for :meth:`to_y`."""
        return self.level + self.slope * like(y, "x", x) + self.residual_std * y


def co2() -> CO2:
    """The committed series, 1958-03 to 2001-12: 521 months.

    A point averages the weekly values of a calendar month, its time the dates of the same weeks, so
    that a month with few weeks is not shifted against the season. Five months without a value are
    left out: June and October 1958, February to April 1964. Made by ``data/co2/make_co2.py`` from
    Keeling and Whorf (2004).

    >>> len(co2().times), co2().ppm[0].item()
    (521, 316.1)
    """
    path = DATA / "co2" / "co2_mauna_loa_monthly.csv"
    table = np.loadtxt(path, delimiter=",", usecols=(2, 3), comments=("#", "year"))
    times, ppm = torch.from_numpy(table.T.copy())
    return CO2(times=times, ppm=ppm)


def detrended(series: CO2, start: float = -np.inf, end: float = np.inf) -> DetrendedCO2:
    """The months with ``start <= time < end``, standardised as in Gal and Ghahramani (2016).

    With ``detrended(co2(), *GAL_SPAN)`` one gets the 272 months of their figure 2. Their file
    (``co2_regression/data/train.h5``) uses the running number of the month instead of its date,
    which closes the gaps of the five missing months; the values agree to a correlation of 0.998.

    >>> months = detrended(co2(), *GAL_SPAN)
    >>> months.x.shape, round(months.slope, 1)
    (torch.Size([272, 1]), 6.9)

    Raises ValueError if fewer than 3 months are left, or ``start`` or ``end`` is NaN.
    """
    if not start < end:
        raise ValueError(f"start must be below end, got {start} and {end}")
    chosen = (series.times >= start) & (series.times < end)
    times = series.times[chosen]
    ppm = series.ppm[chosen]
    if len(times) < 3:
        covered = f"it covers {series.times[0]:.2f} to {series.times[-1]:.2f}"
        raise ValueError(f"only {len(times)} months lie in [{start}, {end}); {covered}")
    time_scale = Standardiser.fit(times)
    x = time_scale.transform(times)
    level = ppm.mean()
    slope = (x * ppm).mean()  # least squares: x has mean 0 and variance 1
    residual = ppm - level - slope * x
    std = residual.std(correction=0)
    return DetrendedCO2(
        x=x[:, None],
        y=residual / std,
        time_scale=time_scale,
        level=level.item(),
        slope=slope.item(),
        residual_std=std.item(),
    )
