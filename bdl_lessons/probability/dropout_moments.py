r"""Mean and variance of a network whose last hidden layer is dropped: in closed form.

With inverted dropout on the hidden units, $f(x) = c + \sum_i (z_i / \text{keep})\, v_i h_i(x)$. The
tosses are independent, so variances add:

$$\mathbb E f(x) = c + \sum_i v_i h_i(x), \qquad
  \text{Var} f(x) = \frac{\text{p\_drop}}{\text{keep}} \sum_i v_i^2\, h_i(x)^2 .$$

If $h_i(x) = \text{relu}(w_i^\top x + b_i)$ without dropout below, each square is convex in x, hence
so is the variance (Foong et al., NeurIPS 2020, theorem 2).
"""

from __future__ import annotations

from torch import Tensor

from bdl_lessons.core.validation import valid_p_drop


def dropout_moments(hidden: Tensor, weight: Tensor, p_drop: float) -> tuple[Tensor, Tensor]:
    """Mean and variance over all masks of ``(hidden * z / keep) @ weight``.

    A bias is added to the mean by the caller.

    Args:
        hidden: ``(..., H)`` activations that no mask has touched yet.
        weight: ``(H,)``, the weights of one output.
        p_drop: drop probability in [0, 1).

    Returns:
        mean and variance, ``(...)`` each, in the output's units and their square.

    Raises:
        TypeError, ValueError: if ``p_drop`` is not in [0, 1) or the widths differ.
    """
    p_drop = valid_p_drop(p_drop)
    if weight.ndim != 1 or hidden.shape[-1:] != weight.shape:
        raise ValueError(
            f"weight must be (H,) with H = {hidden.shape[-1]} hidden units, "
            f"got {tuple(weight.shape)}"
        )
    return hidden @ weight, p_drop / (1 - p_drop) * hidden.square() @ weight.square()
