"""Make ``data/co2/co2_mauna_loa_monthly.csv`` from the weekly series that statsmodels ships.

    python data/co2/make_co2.py

A week belongs to the month of the date in its row. Weeks without a value are left out; so is a
month without any. The time of a month is the average date of the weeks it averages: where both
level and season change linearly within a month, that pair of averages lies on the curve however
many weeks are missing, which the middle of the month does not.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.util
from collections import defaultdict
from datetime import date, datetime
from pathlib import Path

from bdl_lessons.core.files import DATA
from reproductions.files import replacing

SOURCE_SHA256 = "16695fa2786e53414e5a6b54767a3fdf5de99cfbc68617f69d1362d92776a92f"
HEADER = f"""\
# Atmospheric CO2 at Mauna Loa, Hawaii: monthly means in ppm, made from weekly means.
# Source: C. D. Keeling and T. P. Whorf, Atmospheric CO2 concentrations derived from flask air
# samples at sites in the SIO network, in Trends: A Compendium of Data on Global Change, CDIAC,
# 2004; as shipped by statsmodels (datasets/co2/co2.csv, public domain),
# sha256 {SOURCE_SHA256}.
# decimal_year: mean date of the weeks averaged. n_weeks: how many had a value.
# Months without any value are omitted: 1958-06, 1958-10, 1964-02, 1964-03, 1964-04.
# Made by: python data/co2/make_co2.py
"""


def monthly_means(weekly_csv: str) -> list[tuple[int, int, float, float, int]]:
    """Rows of year, month, decimal year, mean ppm, number of weeks.

    Args:
        weekly_csv: text with a header line and rows ``YYYYMMDD,ppm``; ppm may be empty.
    """
    weeks: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for row in csv.DictReader(weekly_csv.splitlines()):
        if row["co2"]:
            day = datetime.strptime(row["date"], "%Y%m%d").date()
            weeks[day.year, day.month].append((decimal_year(day), float(row["co2"])))
    rows = []
    for (year, month), values in sorted(weeks.items()):
        time, ppm = (sum(column) / len(values) for column in zip(*values, strict=True))
        rows.append((year, month, time, ppm, len(values)))
    return rows


def decimal_year(day: date) -> float:
    """Noon of a day as a fraction of its year: 1 January 1999 is 1999 + 0.5/365."""
    start = date(day.year, 1, 1)
    end = date(day.year + 1, 1, 1)
    return day.year + ((day - start).days + 0.5) / (end - start).days


def render(weekly_csv: str) -> str:
    """The whole text of the committed file."""
    rows = monthly_means(weekly_csv)
    lines = [f"{y},{m:02d},{t:.4f},{ppm:.3f},{n}\n" for y, m, t, ppm, n in rows]
    return HEADER + "year,month,decimal_year,ppm,n_weeks\n" + "".join(lines)


def weekly_source() -> str:
    """The weekly series inside the installed statsmodels.

    Raises:
        ModuleNotFoundError: if statsmodels is not installed.
        ValueError: if it ships another version of the file.
    """
    spec = importlib.util.find_spec("statsmodels")
    if spec is None:
        raise ModuleNotFoundError("make_co2 needs statsmodels: pip install statsmodels")
    path = Path(spec.origin).parent / "datasets" / "co2" / "co2.csv"
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != SOURCE_SHA256:
        raise ValueError(f"{path} has sha256 {digest}, expected {SOURCE_SHA256}")
    return content.decode("ascii")


def main() -> None:
    """Write the file, whole or not at all, and print its sha256."""
    target = DATA / "co2" / "co2_mauna_loa_monthly.csv"
    content = render(weekly_source()).encode("ascii")
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as file:
        file.write(content)
    print(f"{target}\nsha256 {hashlib.sha256(content).hexdigest()}")


if __name__ == "__main__":
    main()
