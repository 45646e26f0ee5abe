r"""Weight decay read as a prior: tau, lambda and ``weight_decay``, with every factor. Lesson 04.

Prior ``w ~ N(0, l^-2)``; posterior ``W = M diag(z)``, ``z_k ~ Bernoulli(keep)``: a dropped input
takes its column of ``W`` with it. The part of ``KL(q || p)`` that depends on ``M`` is

.. math:: \frac{\mathrm{keep}\; l^2}{2}\lVert M\rVert^2
          \qquad\text{and}\qquad \frac{l^2}{2}\lVert b\rVert^2 \text{ for a bias, never dropped}

(Gal & Ghahramani 2016, eq. 4). Dividing ``-ELBO`` by ``tau N`` turns it into the weight decay of
the dropout loss, so ``lambda = keep l^2 / (2 N tau)`` (their eq. 7). Three habits hide a factor:

============  ==========================================  ==================================
choice        values                                      what it changes
============  ==========================================  ==================================
data term     ``nll``, ``half_squared_error``,            the scale of the whole loss:
              ``squared_error``, ``mse``                  1, 1/tau, 2/tau, 2/(tau D)
scaling       ``classic`` (masks 0, 1; stores ``M``)      keep, or 1/keep, because
              ``inverted`` (0, 1/keep; stores keep M)     ``||M||^2 = ||W||^2 / keep^2``
penalty       ``lambda ||W||^2`` or ``weight_decay``      ``weight_decay = 2 lambda``
============  ==========================================  ==================================

``weight_decay`` is that of ``torch.optim.SGD`` and ``Adam``, which add ``weight_decay * W`` to the
gradient. ``AdamW`` decays the weights beside the gradient: there the identity does not hold.
"""

from typing import Literal

from bdl_lessons.core.validation import integer, one_of, positive, valid_p_drop

DataTerm = Literal["nll", "half_squared_error", "squared_error", "mse"]
Scaling = Literal["classic", "inverted"]


def weight_decay(
    tau: float,
    length_scale: float,
    n_train: int,
    p_drop: float,
    *,
    data_term: DataTerm,
    scaling: Scaling,
    n_outputs: int = 1,
    y_std: float = 1.0,
) -> float:
    r"""``weight_decay`` of one weight, with which ``torch.optim.SGD`` minimises ``-ELBO``.

    Raises TypeError or ValueError for a value outside its range.

    .. math:: \texttt{weight\_decay} = 2\lambda = s \,\frac{\kappa\, l^2}{N}, \qquad
              s = 1,\ \tfrac1\tau,\ \tfrac2\tau,\ \tfrac{2}{\tau D}, \qquad
              \kappa = \mathrm{keep}\ \text{or}\ \tfrac{1}{\mathrm{keep}}

    Args:
        tau, length_scale: noise precision in original units of y; l of the prior ``N(0, l^-2)``.
        n_train: size of the training set.
        p_drop: probability that an input of this layer is dropped, in [0, 1); 0 for a bias.
        data_term: a mean over examples of ``-log p(y|x)``, ``||y - y_pred||^2 / 2`` or
            ``||y - y_pred||^2``; or ``"mse"``, torch's mean over examples *and* outputs.
        scaling: ``"classic"`` (masks of 0 and 1) or ``"inverted"`` (``nn.Dropout``: 0 and 1/keep).
        n_outputs: D, matters for ``"mse"`` only.
        y_std: what y was divided by before the loss saw it: there the precision is
            ``tau * y_std**2``.

    >>> weight_decay(2.0, 1.0, 100, 0.5, data_term="mse", scaling="inverted")
    0.02
    """
    precision = positive("tau", tau) * positive("y_std", y_std) ** 2
    loss_per_nat = {
        "nll": 1.0,
        "half_squared_error": 1 / precision,
        "squared_error": 2 / precision,
        "mse": 2 / (precision * integer("n_outputs", n_outputs, 1)),
    }[one_of("data_term", data_term, DataTerm)]
    keep = 1 - valid_p_drop(p_drop)
    factor = keep if one_of("scaling", scaling, Scaling) == "classic" else 1 / keep
    precision_of_prior = positive("length_scale", length_scale) ** 2
    return loss_per_nat * factor * precision_of_prior / integer("n_train", n_train, 1)


def implied_tau(
    decay: float,
    length_scale: float,
    n_train: int,
    p_drop: float,
    *,
    data_term: DataTerm,
    scaling: Scaling,
    n_outputs: int = 1,
    y_std: float = 1.0,
) -> float:
    """The noise precision, in original units of y, that a weight decay implies.

    The inverse of :func:`weight_decay`, which is proportional to ``1 / tau``. With ``classic``
    scaling and ``half_squared_error`` it is ``keep l^2 / (N decay)``: eq. 7, ``lambda`` replaced.
    Raises TypeError or ValueError for a value outside its range, or ``data_term="nll"``, whose
    scale is fixed: there tau stands in the data term and the weight decay implies none.

    >>> implied_tau(0.02, 1.0, 100, 0.5, data_term="mse", scaling="inverted")
    2.0
    """
    if data_term == "nll":
        raise ValueError("data_term='nll' already contains tau: its weight decay implies none")
    decay_at_tau_1 = weight_decay(
        1.0,
        length_scale,
        n_train,
        p_drop,
        data_term=data_term,
        scaling=scaling,
        n_outputs=n_outputs,
        y_std=y_std,
    )
    return decay_at_tau_1 / positive("decay", decay)
