"""The eight regression sets of the dropout papers, in the order their splits refer to.

Lesson 10 and the UCI experiments.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from bdl_lessons.core.validation import typechecked
from bdl_lessons.datasets.containers import Regression
from bdl_lessons.datasets.errors import reading, unknown
from bdl_lessons.datasets.fetch import fetch


class Columns(NamedTuple):
    """The features are the first columns of the file, the target is the one after them."""

    listed: str
    target: str
    unit: str
    unused: int = 0

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features; in ``listed`` a semicolon stands between them."""
        return tuple(" ".join(name.split()) for name in self.listed.split(";"))


UCI = {
    "bostonHousing": Columns(
        """
        crime rate per head (CRIM); large residential plots [%] (ZN); non-retail business land
        [%] (INDUS); bounds the river (CHAS); nitric oxides [1e-7] (NOX); rooms per home (RM);
        homes built before 1940 [%] (AGE); distance to employment centres (DIS); access to
        highways, index (RAD); property tax [1e-4 USD per USD] (TAX); pupils per teacher
        (PTRATIO); built on the share of Black residents (B); lower status of the population [%]
        (LSTAT)
        """,
        "median value of homes (MEDV)",
        "1000 USD",
    ),
    "concrete": Columns(
        """
        cement [kg/m³]; blast furnace slag [kg/m³]; fly ash [kg/m³]; water [kg/m³];
        superplasticizer [kg/m³]; coarse aggregate [kg/m³]; fine aggregate [kg/m³]; age [days]
        """,
        "compressive strength",
        "MPa",
    ),
    "energy": Columns(
        """
        relative compactness; surface area [m²]; wall area [m²]; roof area [m²]; overall height
        [m]; orientation; glazing area (share of floor); glazing area distribution
        """,
        "heating load (Y1)",
        "kWh/m²",
    ),
    "kin8nm": Columns(
        "; ".join(f"theta{i} [rad]" for i in range(1, 9)),
        "distance of the end effector from the target",
        "length, arbitrary",
    ),
    "naval-propulsion-plant": Columns(
        """
        lever position; ship speed [knots]; gas turbine shaft torque [kN m]; gas turbine
        revolutions [rpm]; gas generator revolutions [rpm]; starboard propeller torque [kN];
        port propeller torque [kN]; high pressure turbine exit temperature; compressor inlet air
        temperature (constant); compressor outlet air temperature; high pressure turbine exit
        pressure [bar]; compressor inlet air pressure [bar] (constant); compressor outlet air
        pressure [bar]; exhaust gas pressure [bar]; turbine injection control [%]; fuel flow
        [kg/s]
        """,
        "compressor decay state coefficient",
        "1",
        unused=1,
    ),
    "power-plant": Columns(
        """
        ambient temperature [°C]; exhaust vacuum [cm Hg]; ambient pressure [mbar]; relative
        humidity [%]
        """,
        "net hourly electrical energy output (PE)",
        "MW",
    ),
    "wine-quality-red": Columns(
        """
        fixed acidity [g/l]; volatile acidity [g/l]; citric acid [g/l]; residual sugar [g/l];
        chlorides [g/l]; free sulfur dioxide [mg/l]; total sulfur dioxide [mg/l]; density
        [g/cm³]; pH; sulphates [g/l]; alcohol [vol %]
        """,
        "quality",
        "score 0–10",
    ),
    "yacht": Columns(
        """
        longitudinal position of the centre of buoyancy; prismatic coefficient;
        length-displacement ratio; beam-draught ratio; length-beam ratio; Froude number
        """,
        "residuary resistance per unit weight of displacement",
        "1",
    ),
}
"""Columns of each set. Traps: naval has two constant features; 240 of the 1599 examples of wine are
repetitions, 41 of power-plant, 25 of concrete, so that equal examples can fall on both sides of a
split; the feature B of bostonHousing is built on race, for which scikit-learn dropped the set."""


@typechecked
def uci(name: str) -> Regression:
    """One of the eight UCI sets: x ``(N, Q)`` and y ``(N,)`` in original units.

    Args:
        name: one of ``UCI``: bostonHousing, concrete, energy, kin8nm, naval-propulsion-plant,
            power-plant, wine-quality-red, yacht.

    Raises:
        ValueError: for another name.
        DatasetCorrupt: if the file has NaN, text or another number of columns.
    """
    if name not in UCI:
        raise unknown("name of a UCI set", name, UCI)
    columns = UCI[name]
    path = fetch(name, "data.txt")
    n_features = len(columns.features)
    n_columns = n_features + 1 + columns.unused
    with reading(path):
        table = np.loadtxt(path, ndmin=2)
        if table.shape[1] != n_columns:
            raise ValueError(f"expected {n_columns} columns, found {table.shape[1]}")
        if not np.isfinite(table).all():
            row = int(np.argmin(np.isfinite(table).all(1)))
            raise ValueError(f"row {row} (from 0) holds a value that is not a finite number")
    x = torch.from_numpy(table[:, :n_features].copy())
    y = torch.from_numpy(table[:, n_features].copy())
    return Regression(name, x, y, columns.features, columns.target, columns.unit)
