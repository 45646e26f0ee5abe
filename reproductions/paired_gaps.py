"""Gaps between two kinds of what was measured on the same seeds, and claims about them."""

from collections.abc import Mapping

import pandas as pd

from reproductions import markdown
from reproductions.experiment import Claim

LEAST_SEEDS = 3
"""From so many on a claim is looked at."""


def gaps_by_seed(rows: pd.DataFrame, column: str, kind: str, other: str) -> pd.Series:
    """The mean accuracy of one kind of ``column`` minus that of another, by seed, in points.

    ``rows`` have the columns ``seed`` and ``accuracy``. A seed that lacks one of the two is left
    out.

    >>> rows = pd.DataFrame({"seed": [0, 0], "rule": ["entropy", "random"], "accuracy": [90, 85]})
    >>> gaps_by_seed(rows, "rule", "entropy", "random").tolist()
    [5.0]
    """
    means = rows.pivot_table(values="accuracy", index="seed", columns=column)
    if not {kind, other} <= set(means.columns):
        return pd.Series(dtype=float)
    return (means[kind] - means[other]).dropna()


def signed(gaps: pd.Series, digits: int) -> str:
    """Mean and standard error of the gaps, with a sign.

    >>> signed(pd.Series([1.0, 2.0, 3.0]), digits=1)
    '+2.0 ± 0.6'
    """
    text = markdown.mean_and_error(list(gaps), digits)
    return text if text.startswith("-") else f"+{text}"


def claim(
    statement: str,
    published: str,
    gaps: Mapping[str, pd.Series],
    condition: str,
    digits: int,
    sign: int = 1,
) -> Claim:
    """It holds in a case whose gaps have the sign, and a mean more than two errors from 0."""
    known = {case: of_case for case, of_case in gaps.items() if len(of_case) >= LEAST_SEEDS}
    n_hold = sum(sign * of_case.mean() > 2 * of_case.sem() for of_case in known.values())
    ours = [f"{case} {signed(of_case, digits)}" for case, of_case in known.items()]
    return Claim(
        statement=statement,
        published=published,
        ours=f"{', '.join(ours)} points" if ours else "–",
        holds=int(n_hold),
        of=len(known),
        condition=condition,
    )
