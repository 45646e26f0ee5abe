"""The mathematics, as functions of tensors: masks, KL divergences, reflections, the ELBO.

Imports: core.
"""

from bdl_lessons.probability.decay_as_prior import implied_tau, weight_decay
from bdl_lessons.probability.elbo import elbo_loss, gaussian_nll, kl_warmup
from bdl_lessons.probability.empirical_bayes import (
    best_precision,
    column_marginal_kl,
    empirical_bayes_kl,
)
from bdl_lessons.probability.householder import (
    compact_form,
    orthogonal_matrix,
    reflect,
    rotated_variance,
)
from bdl_lessons.probability.improper_prior import (
    decades_to_half,
    mass_near_zero,
    truncated_evidence,
)
from bdl_lessons.probability.kl import (
    dropout_mixture,
    gaussian_kl,
    gaussian_kl_full,
    gaussian_kl_to_prior,
    lognormal_gamma_kl,
    lognormal_kl,
    mixture_kl,
    mixture_kl_monte_carlo,
)
from bdl_lessons.probability.log_uniform import (
    KL_OFFSET,
    kingma_kl,
    loguniform_kl,
    loguniform_kl_slope,
    molchanov_kl,
)
from bdl_lessons.probability.masks import all_masks, mask_probs
from bdl_lessons.probability.partition_kl import (
    gaussian_cells,
    line_cells,
    point_cells,
    quantised_kl,
)

__all__ = [
    "KL_OFFSET",
    "all_masks",
    "best_precision",
    "column_marginal_kl",
    "compact_form",
    "decades_to_half",
    "dropout_mixture",
    "elbo_loss",
    "empirical_bayes_kl",
    "gaussian_cells",
    "gaussian_kl",
    "gaussian_kl_full",
    "gaussian_kl_to_prior",
    "gaussian_nll",
    "implied_tau",
    "kingma_kl",
    "kl_warmup",
    "line_cells",
    "lognormal_gamma_kl",
    "lognormal_kl",
    "loguniform_kl",
    "loguniform_kl_slope",
    "mask_probs",
    "mass_near_zero",
    "mixture_kl",
    "mixture_kl_monte_carlo",
    "molchanov_kl",
    "orthogonal_matrix",
    "point_cells",
    "quantised_kl",
    "reflect",
    "rotated_variance",
    "truncated_evidence",
    "weight_decay",
]
