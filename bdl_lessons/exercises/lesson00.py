"""The exercise of lesson 00: small, to show how exercises work."""

from __future__ import annotations

from bdl_lessons.exercises.grader import Criterion, Exercise, KnownError, agrees, close


def mask_variance(p_drop: float) -> float:
    """The variance of one mask entry z, which is 1 with probability keep and 0 otherwise."""
    keep = 1 - p_drop
    return keep * p_drop


EXERCISES = (
    Exercise(
        number="00.1",
        title="the variance of a mask entry",
        solution=mask_variance,
        probe=lambda answer: [answer(0.2), answer(0.7)],
        criteria=(
            Criterion(
                "at p_drop = ½ the variance is ¼",
                lambda answer: close(answer(0.5), 0.25),
                advice=(
                    "for z in {0, 1} with probability ½ each, the mean is ½ and (z − ½)² is always "
                    "¼"
                ),
            ),
            Criterion(
                "a unit that is never dropped has no variance",
                lambda answer: close(answer(0.0), 0.0),
                advice="at p_drop = 0 every z is 1",
            ),
            Criterion(
                "at p_drop = 0.2 the variance is 0.16",
                agrees(lambda answer: answer(0.2), 0.16),
                advice=(
                    "its mean is 0.8: average (1 − 0.8)² and (0 − 0.8)², with their probabilities"
                ),
            ),
            Criterion(
                "keep and p_drop play the same part",
                lambda answer: close(answer(0.2), answer(0.8)),
                advice="exchanging keep and p_drop does not change the variance",
            ),
        ),
        known_errors=(
            KnownError(
                lambda p_drop: (p_drop * (1 - p_drop)) ** 0.5,
                diagnosis="this is the standard deviation, the square root of the variance.",
            ),
            KnownError(
                lambda p_drop: p_drop / (1 - p_drop),
                diagnosis=(
                    "this is the variance of z / keep, the rescaled mask of inverted dropout."
                ),
            ),
            KnownError(
                lambda p_drop: p_drop,
                diagnosis=(
                    "this is the probability that z is 0. The variance is the mean of "
                    "(z − E[z])², and E[z] is keep."
                ),
            ),
            KnownError(
                lambda p_drop: 1 - p_drop,
                diagnosis=(
                    "this is E[z²], which equals the mean here. Subtract the square of the mean."
                ),
            ),
        ),
        hints=(
            "Var[z] = E[z²] − E[z]².",
            "z² = z, because 0² = 0 and 1² = 1. So E[z²] = E[z] = keep.",
            "keep − keep² = keep · (1 − keep)",
        ),
        kind="derive",
    ),
)
