"""The mathematics, as functions of tensors: masks, KL divergences, reflections, the ELBO.

Of functions with a ``…_fast`` module, the fast form is exported; the formula is in the module
without the suffix, and a test compares the two.

Imports: core.
"""

from bdl_lessons.probability.elbo import elbo_loss, gaussian_nll, kl_warmup
from bdl_lessons.probability.empirical_bayes_kl import (
    best_precision, column_marginal_kl, empirical_bayes_kl, total_correlation,
)
from bdl_lessons.probability.householder import compact_form, orthogonal_matrix, reflect
from bdl_lessons.probability.householder_fast import rotated_noise, rotated_variance
from bdl_lessons.probability.improper_prior import (
    decades_to_half, mass_near_zero, truncated_evidence,
)
from bdl_lessons.probability.kl import (
    dropout_mixture, gaussian_kl, gaussian_kl_full, lognormal_gamma_kl, lognormal_kl, mixture_kl,
    mixture_kl_monte_carlo,
)
from bdl_lessons.probability.kl_fast import gaussian_kl_to_prior
from bdl_lessons.probability.loguniform_kl import (
    KL_OFFSET, kingma_kl, loguniform_kl, loguniform_kl_slope, molchanov_kl,
)
from bdl_lessons.probability.masks import all_masks, mask_probs
from bdl_lessons.probability.partition_kl import (
    gaussian_cells, line_cells, point_cells, quantised_kl,
)
from bdl_lessons.probability.weight_decay import implied_tau, weight_decay
