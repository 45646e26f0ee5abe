"""The UCI regression sets of the dropout papers: one record each.

Lesson 13 shows what was measured on them; ``reproductions.datasets.uci`` loads them. A new set is a
new record, and a row of a test.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class UCISet:
    """A file of numbers, the features in its first columns and the target in the next.

    >>> UCI_SETS["concrete"].target, UCI_SETS["concrete"].unit
    ('compressive strength', 'MPa')

    Attributes:
        name, display_name: as the file's folder and the records have it, and as tables write it.
        title: what it holds, with the licence and the source.
        n_rows, n_features: how many examples it has, and how many of the columns are features.
        target: what is predicted, in the ``unit``.
        tau_grid: precisions of the noise, in 1/unit², among which Gal and Ghahramani (2016) choose.
        sha256: of the official file.
        digits: how many decimal places an RMSE is printed with.
    """

    name: str
    display_name: str
    title: str
    n_rows: int
    n_features: int
    target: str
    unit: str
    tau_grid: tuple[float, ...]
    sha256: str
    digits: int = 2


_SETS = (
    UCISet(
        name="bostonHousing",
        display_name="Boston",
        title="Boston housing, 506×13; no licence stated; Harrison and Rubinfeld 1978",
        n_rows=506,
        n_features=13,
        target="median value of homes (MEDV)",
        unit="1000 USD",
        tau_grid=(0.1, 0.15, 0.2),
        sha256="baadf72995725d76efe787b664e1f083388c79ba21ef9a7990d87f774184735a",
    ),
    UCISet(
        name="concrete",
        display_name="Concrete",
        title="Concrete compressive strength, 1030×8; CC BY 4.0; Yeh 1998",
        n_rows=1030,
        n_features=8,
        target="compressive strength",
        unit="MPa",
        tau_grid=(0.025, 0.05, 0.075),
        sha256="43d290fd2c2a399ad7e62c45cab5337ba94ece69ebdcf5875aa668cb886243de",
    ),
    UCISet(
        name="energy",
        display_name="Energy",
        title="Energy efficiency of buildings, 768×8; CC BY 4.0; Tsanas and Xifara 2012",
        n_rows=768,
        n_features=8,
        target="heating load (Y1)",
        unit="kWh/m²",
        tau_grid=(0.25, 0.5, 0.75),
        sha256="7f8bf024cea437267d56be99b7af7bb3faebec8a7bccfbb20d06d52d9372a950",
    ),
    UCISet(
        name="kin8nm",
        display_name="Kin8nm",
        title="Kinematics of an 8-link robot arm, 8192×8; public; DELVE, University of Toronto",
        n_rows=8192,
        n_features=8,
        target="distance of the end effector from the target",
        unit="length, arbitrary",
        tau_grid=(150.0, 200.0, 250.0),
        sha256="a694ce0c7a21390f2bd2a205c36f2482cd974637a207038696716e22f3bbe810",
        digits=4,
    ),
    UCISet(
        name="naval-propulsion-plant",
        display_name="Naval",
        title="Naval propulsion plant, 11934×16; CC BY 4.0; Coraddu et al. 2014",
        n_rows=11934,
        n_features=16,  # then two targets, of which the papers use the first
        target="compressor decay state coefficient",
        unit="1",
        tau_grid=(3e4, 4e4, 5e4),
        sha256="de0ea69da1efaab8b9655ffed828547d10dd68c1fb8c6e0163e6a988def393a6",
        digits=5,
    ),
    UCISet(
        name="power-plant",
        display_name="Power Plant",
        title="Combined cycle power plant, 9568×4; CC BY 4.0; Tüfekci 2014",
        n_rows=9568,
        n_features=4,
        target="net hourly electrical energy output (PE)",
        unit="MW",
        tau_grid=(0.05, 0.1, 0.15),
        sha256="daebd20c408dfc5c4979604f240e891be162c3a5d00d662380aa669044a1fb31",
    ),
    UCISet(
        name="wine-quality-red",
        display_name="Wine",
        title="Red wine quality, 1599×11; CC BY 4.0; Cortez et al. 2009, doi:10.24432/C56S3T",
        n_rows=1599,
        n_features=11,
        target="quality",
        unit="score 0–10",
        tau_grid=(2.5, 3.0, 3.5),
        sha256="3ba41eaf4ab562088cf47b5c9dca2b4de2a330c3ee38a7920b4527a09574d5c1",
    ),
    UCISet(
        name="yacht",
        display_name="Yacht",
        title="Yacht hydrodynamics, 308×6; CC BY 4.0; Gerritsma, Onnink and Versluis 1981",
        n_rows=308,
        n_features=6,
        target="residuary resistance per unit weight of displacement",
        unit="1",
        tau_grid=(0.25, 0.5, 0.75),
        sha256="00dfecc0fc01ddd4c90b558a3ac11b246df8ebcfea130724223475a9a67f0ea1",
    ),
)
UCI_SETS = {one.name: one for one in _SETS}
"""By name. Traps: naval has two constant features; 240 of the 1599 examples of wine are
repetitions, 41 of power-plant, 25 of concrete, so that equal examples can fall on both sides of a
split; the feature B of bostonHousing is built on race, for which scikit-learn dropped the set."""

_SHOWN = {
    "mnist": "MNIST",
    "fashion-mnist": "Fashion-MNIST",
    "notmnist-small": "notMNIST (letters)",
    "cifar10": "CIFAR-10",
    "cifar10-sheets": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "cifar100-sheets": "CIFAR-100",
    "svhn": "SVHN",
    "svhn-sheets": "SVHN",
} | {one.name: one.display_name for one in _SETS}


def display_name(data: str) -> str:
    """How tables and menus write the name of a data set; that of the papers.

    >>> display_name("wine-quality-red"), display_name("mnist"), display_name("protein")
    ('Wine', 'MNIST', 'Protein')
    """
    return _SHOWN.get(data, data.capitalize())
