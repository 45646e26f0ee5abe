r"""KL of correlated noise on the rows of a weight matrix from an empirical-Bayes prior. Lesson 11.

``W = diag(xi) Theta`` with ``xi ~ N(1, C)``: column j of W is Gaussian,

.. math:: q(W_{:j}) = N\big(\Theta_{:j},\ D_j C D_j\big), \quad D_j = \mathrm{diag}(\Theta_{:j}),
          \qquad p(W_{ij}) = N(0, 1 / \beta_{ij}).

The Q columns share one xi, so the joint distribution of W lies on K dimensions of K Q, and its KL
divergence from any prior with a density is infinite, with or without correlations. The objective of
structured dropout (Nguyen et al., NeurIPS 2021) adds the mutual information of the columns, also
infinite, and what is left is formally the sum over columns of
:math:`\mathrm{KL}(q(W_{:j}) \| p(W_{:j}))`. That sum is finite, but ELBO plus mutual information is
no longer a lower bound on the marginal likelihood.

Everything here is a sum in nats, in float32 at least. Shapes that do not fit raise ValueError.
"""

from torch import Tensor

from bdl_lessons.core.devices import single
from bdl_lessons.core.validation import cholesky, integer, shapes


def empirical_bayes_kl(log_alpha: Tensor, noise_var: Tensor, n_columns: int) -> Tensor:
    r"""The sum of the column divergences at the best prior precisions (0-dim); Theta cancels.

    .. math:: \mathrm{KL}_{EB} = \frac{Q}{2} \sum_{i=1}^K \log\frac{1 + \tilde\alpha_i}{\alpha_i}
              = \frac{Q}{2} \sum_i \log(1 + 1/\tilde\alpha_i)
              + \frac{Q}{2} \sum_i \log(\tilde\alpha_i / \alpha_i)

    for noise of covariance :math:`C = U \mathrm{diag}(\alpha) U^\top` with the diagonal
    :math:`\tilde\alpha` and U orthogonal, so that ``log det C = sum log alpha``. It depends on the
    noise alone: the KL condition of dropout. A rotation makes the variances more equal than the
    alphas, which can only raise the sum: this KL never favours correlations, only the likelihood
    can. Of the two sums on the right the first is that of each row by itself, the second the total
    correlation.

    (Nguyen et al., NeurIPS 2021. U is K x K, so each variance is a sum of K terms.)

    Args:
        log_alpha, noise_var: ``(K,)`` each; :math:`\tilde\alpha` comes from
            :func:`~bdl_lessons.probability.rotated_variance`.
        n_columns: Q, the number of weights that share one factor, >= 1.

    >>> import torch
    >>> log_alpha = torch.tensor([0.0, 0.0])
    >>> empirical_bayes_kl(log_alpha, log_alpha.exp(), n_columns=3).round(decimals=3)  # 3 log 2
    tensor(2.0790)
    """
    shapes("log_alpha must be (K,) and noise_var (K,)", log_alpha, noise_var)
    log_ratios = single(noise_var).log1p() - single(log_alpha)
    return integer("n_columns", n_columns, 1) / 2 * log_ratios.sum()


def best_precision(theta: Tensor, noise_var: Tensor) -> Tensor:
    r""":math:`\beta^*_{ij} = 1 / (\Theta_{ij}^2 (1 + \tilde\alpha_i))`, one over the second moment.

    ``theta`` is ``(K, Q)``, ``noise_var`` ``(K,)``; the result is infinite where a weight is 0.

    >>> import torch
    >>> best_precision(torch.tensor([[2.0, 0.5]]), torch.tensor([1.0]))
    tensor([[0.1250, 2.0000]])
    """
    shapes("theta must be (K, Q) and noise_var (K,)", theta, noise_var)
    second_moment = single(theta).square() * (1 + single(noise_var)[:, None])
    return 1 / second_moment


def column_marginal_kl(theta: Tensor, noise_cov: Tensor, precision: Tensor) -> Tensor:
    r"""The sum of the column divergences for any prior precisions, written out (0-dim).

    .. math:: \tfrac12 \sum_j \Big[ \sum_i \big( \beta_{ij} \Theta_{ij}^2 (1 + C_{ii}) - 1
              - \log \Theta_{ij}^2 - \log \beta_{ij} \big) - \log\det C \Big]

    A reference in O(K^3); training uses :func:`empirical_bayes_kl`.

    Args:
        theta: ``(K, Q)``; infinite if it has a zero, because that column has no density.
        noise_cov: C, ``(K, K)``, symmetric and positive definite, else ValueError.
        precision: beta, ``(K, Q)``, positive.

    >>> import torch
    >>> column_marginal_kl(torch.ones(2, 3), torch.eye(2), torch.ones(2, 3))
    tensor(3.)
    """
    shapes("theta must be (K, Q) and precision (K, Q)", theta, precision)
    theta = single(theta)
    noise_cov = single(noise_cov)
    precision = single(precision)
    log_det = 2 * cholesky("noise_cov", noise_cov, len(theta)).diagonal().log().sum()
    moment = theta.square() * (1 + noise_cov.diagonal()[:, None])
    terms = precision * moment - 1 - theta.square().log() - precision.log()
    return (terms.sum() - theta.shape[1] * log_det) / 2
