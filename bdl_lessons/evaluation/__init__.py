"""Scores of predictions, predictive uncertainty, OOD detection, variance of gradients.

Imports: models.
"""

from bdl_lessons.evaluation.decisions import (
    ABSTAIN,
    RiskCoverage,
    chow_threshold,
    decide,
    mean_cost,
    risk_coverage,
)
from bdl_lessons.evaluation.induced_regularization import (
    gauss_newton,
    loss_hessian,
    loss_increase,
    penalty,
    penalty_from_roots,
    sensitivity,
    softmax_root,
    spectral_bound,
)
from bdl_lessons.evaluation.metrics import accuracy, ece, error_percent, nll, reliability_bins, rmse
from bdl_lessons.evaluation.model_comparison import paired_difference, ranks
from bdl_lessons.evaluation.ood import ood_metrics
from bdl_lessons.evaluation.predictive import (
    entropy,
    log_mean_probs,
    log_predictive_likelihood,
    mutual_information,
    predictive_entropy,
    predictive_var,
    score_taus,
)
from bdl_lessons.evaluation.stochastic_gradients import gradient_variance, noisy_outputs

__all__ = [
    "ABSTAIN",
    "RiskCoverage",
    "accuracy",
    "chow_threshold",
    "decide",
    "ece",
    "entropy",
    "error_percent",
    "gauss_newton",
    "gradient_variance",
    "log_mean_probs",
    "log_predictive_likelihood",
    "loss_hessian",
    "loss_increase",
    "mean_cost",
    "mutual_information",
    "nll",
    "noisy_outputs",
    "ood_metrics",
    "paired_difference",
    "penalty",
    "penalty_from_roots",
    "predictive_entropy",
    "predictive_var",
    "ranks",
    "reliability_bins",
    "risk_coverage",
    "rmse",
    "score_taus",
    "sensitivity",
    "softmax_root",
    "spectral_bound",
]
