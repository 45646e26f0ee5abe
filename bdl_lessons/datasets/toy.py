"""Two real sets that ship with scikit-learn, without a download: digits and diabetes.

Lessons 01, 02, 04 to 08, 10 and 11; diabetes in 09 too.
"""

from __future__ import annotations

import numpy as np
import torch

from bdl_lessons.datasets.containers import Classification, Regression, first_n
from bdl_lessons.datasets.idx import DIGITS

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

    The file has no split; here one permutation drawn with ``seed`` puts ``n_test`` examples aside
    and keeps the first ``n_train`` of the others (all if ``None``). The test part does not depend
    on ``n_train``. Pixels are ``k/16``: ``x.reshape(-1, 1, 8, 8)`` gives the images.
    """
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    n_test = first_n(n_test, len(pixels) - 1)
    n_train = first_n(n_train, len(pixels) - n_test)
    rows = np.random.default_rng(seed).permutation(len(pixels))
    x = torch.from_numpy(pixels / 16).to(torch.float32)
    y = torch.from_numpy(labels.astype(np.int64))
    train, test = (torch.from_numpy(r) for r in (rows[n_test : n_test + n_train], rows[:n_test]))
    return Classification("digits", x[train], y[train], x[test], y[test], DIGITS)


def diabetes() -> Regression:
    """Diabetes progression of 442 patients: x ``(442, 10)``, y ``(442,)``.

    Features are the raw measurements, not scikit-learn's scaled ones, so that they can be
    standardised on the training examples alone. The source states neither the unit of the target (a
    score of disease progression one year after baseline, 25 to 346) nor those of the blood
    values; the units in ``feature_names`` are the customary ones.
    """
    from sklearn.datasets import load_diabetes

    raw = load_diabetes(scaled=False)
    return Regression(
        "diabetes",
        torch.from_numpy(raw.data),
        torch.from_numpy(raw.target),
        tuple(DIABETES_NAMES[name] for name in raw.feature_names),
        "disease progression one year after baseline",
        "score, unit not stated",
    )
