"""Small sets without a download: digits and diabetes of scikit-learn, and a simulated one.

Lessons 01, 02 and 04 to 12.
"""

import numpy as np
import torch

from bdl_lessons.core.validation import integer, non_negative
from bdl_lessons.datasets.containers import Classification, Regression, first_n

DIGITS = tuple("0123456789")
DIABETES_NAMES = {
    "age": "age [years]",
    "sex": "sex (coded 1, 2)",
    "bmi": "body mass index [kg/m²]",
    "bp": "average blood pressure [mm Hg]",
    "s1": "total cholesterol [mg/dl]",
    "s2": "low-density lipoproteins [mg/dl]",
    "s3": "high-density lipoproteins [mg/dl]",
    "s4": "total cholesterol / HDL",
    "s5": "log of serum triglycerides",
    "s6": "blood sugar [mg/dl]",
}


def digits(n_train: int | None = None, n_test: int = 360, seed: int = 0) -> Classification:
    """scikit-learn's 1797 handwritten digits: x ``(N, 64)`` in [0, 1], ten classes.

    One permutation drawn with ``seed`` puts ``n_test`` examples aside and keeps the first
    ``n_train`` of the others (all if ``None``). ``x.reshape(-1, 1, 8, 8)`` gives the images.

    >>> digits(n_train=100).x_train.shape
    torch.Size([100, 64])
    """
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    n_test = first_n(n_test, len(pixels) - 1)
    n_train = first_n(n_train, len(pixels) - n_test)
    rows = np.random.default_rng(integer("seed", seed, 0)).permutation(len(pixels))
    x = torch.from_numpy(pixels / 16).to(torch.float32)
    y = torch.from_numpy(labels.astype(np.int64))
    test = torch.from_numpy(rows[:n_test])
    train = torch.from_numpy(rows[n_test : n_test + n_train])
    return Classification(
        name="digits",
        x_train=x[train],
        y_train=y[train],
        x_test=x[test],
        y_test=y[test],
        classes=DIGITS,
    )


def diabetes() -> Regression:
    """Diabetes progression of 442 patients: x ``(442, 10)``, y ``(442,)``.

    Features are the raw measurements, so that they can be standardised on the training examples
    alone. The source states neither the unit of the target (a score of disease progression one year
    after baseline, 25 to 346) nor those of the blood values: here are the customary ones.

    >>> diabetes().x.shape, diabetes().feature_names[2]
    (torch.Size([442, 10]), 'body mass index [kg/m²]')
    """
    from sklearn.datasets import load_diabetes

    raw = load_diabetes(scaled=False)
    return Regression(
        name="diabetes",
        x=torch.from_numpy(raw.data),
        y=torch.from_numpy(raw.target),
        feature_names=tuple(DIABETES_NAMES[name] for name in raw.feature_names),
        target="disease progression one year after baseline",
        unit="score, unit not stated",
    )


def origin_clusters(
    n_train: int = 100, spread_std: float = 0.1, noise_std: float = 0.1, seed: int = 0
) -> Regression:
    """Two inputs, one cluster around (1, 1) and one around (-1, -1), the origin left empty.

    x ``(N, 2)``, half of the points in each cluster, ``spread_std`` per coordinate. The target is
    a random function plus noise of ``noise_std``: one draw of a ReLU network with 50 hidden units
    from its prior, weight std 4/sqrt(fan_in), bias std 1. Inputs, noise and prior are those of the
    "origin" set of Foong et al. (2020, section 4); the points are not theirs. One seed gives the
    same set on every machine.

    >>> origin_clusters(n_train=20).x.sign()[[0, -1]].tolist()
    [[1.0, 1.0], [-1.0, -1.0]]

    Raises ValueError or TypeError if ``n_train`` is no integer of at least 2, or a std is negative
    or not finite.
    """
    integer("n_train", n_train, 2)
    non_negative("spread_std", spread_std)
    non_negative("noise_std", noise_std)
    generator = np.random.default_rng(integer("seed", seed, 0))
    n_first = n_train // 2
    centres = np.repeat([[1.0, 1.0], [-1.0, -1.0]], [n_first, n_train - n_first], axis=0)
    x = centres + spread_std * generator.standard_normal((n_train, 2))
    width = 50
    weight_std = 4.0
    w1 = generator.standard_normal((2, width)) * weight_std / np.sqrt(2)
    w2 = generator.standard_normal(width) * weight_std / np.sqrt(width)
    b1 = generator.standard_normal(width)
    b2 = generator.standard_normal()
    y = np.maximum(x @ w1 + b1, 0) @ w2 + b2 + noise_std * generator.standard_normal(n_train)
    return Regression(
        name="origin-clusters",
        x=torch.from_numpy(x),
        y=torch.from_numpy(y),
        feature_names=("x1", "x2"),
        target="y",
        unit="1",
    )
