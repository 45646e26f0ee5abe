"""The symbols of the course: one meaning each, in text, code and figures.

Lesson 00 shows the whole table and the recap of each lesson shows its own rows; a guard holds the
formulas of the lessons to it.
"""

import re
from dataclasses import dataclass

from IPython.display import Markdown


@dataclass(frozen=True)
class Symbol:
    """Where a symbol is introduced, the symbol, its name in code (may be empty) and its meaning."""

    lesson: str
    latex: str
    code: str
    meaning: str


def new_symbols(lesson: str) -> Markdown:
    """The symbols that a lesson introduces, as a table.

    Raises ValueError if the lesson introduces none.
    """
    rows = [symbol for symbol in SYMBOLS if symbol.lesson == lesson]
    if not rows:
        raise ValueError(f"no symbols of lesson {lesson!r}; lessons are two digits, e.g. '01'")
    return _table(rows)


def all_symbols() -> Markdown:
    """Every symbol of the course, in the order of the lessons, in a fold."""
    title = f"<details><summary><b>All {len(SYMBOLS)} symbols</b></summary>"
    return Markdown(f"{title}\n\n{_table(SYMBOLS).data}\n\n</details>")


def _table(symbols: list[Symbol]) -> Markdown:
    rows = [[f"${s.latex}$", f"`{s.code}`" if s.code else "", s.meaning, s.lesson] for s in symbols]
    table = [["symbol", "code", "meaning", "lesson"], ["---"] * 4, *rows]
    return Markdown("\n".join(f"| {' | '.join(row)} |" for row in table))


_ROWS = r"""
01 | \text{p\_drop} | p_drop | probability that a unit is dropped
01 | \text{keep} | keep | probability that a unit is kept, 1 − p_drop
01 | z | z | mask: 1 for a unit that is kept, 0 for one that is dropped
01 | K | | number of inputs of a layer: the units that can be dropped; number of weights of a
    linear model
01 | Q | | number of outputs of a layer
01 | i | | index of an input or a unit
01 | j | | index of an output, or another index of an input or a unit
01 | N | n_train | number of training examples
01 | n | | index of an example
01 | S | n_samples | number of random draws that are averaged (papers often write T)
01 | s | | index of a draw
01 | c | | index of a class
01 | x | x | input of a network or a layer
01 | y | y | target: what is observed at an input
01 | f | | output of a network, before observation noise
01 | h | | values of hidden units
01 | a | a | pre-activation: W x + b, before a nonlinearity or a softmax (logits)
01 | W | W | weight matrix of a layer; random where it is given a distribution
01 | w | w | weight vector, or one weight
01 | b | b | bias of a layer
01 | p | | probability or probability density
01 | \lambda | | coefficient of a squared norm (ridge, weight decay)
02 | \tau | tau | precision of the observation noise: its variance is 1/τ
02 | \beta | beta | precision of the prior of a weight: variance 1/β
02 | X | X | matrix of the training inputs, one example in each row
02 | \Lambda | | precision matrix of the posterior of a linear model
02 | q | | variational posterior: the approximation of the posterior
02 | m | | mean vector of q
02 | \Sigma | | covariance matrix of q
02 | I | | identity matrix
02 | L | L | lower triangular factor of a covariance matrix, as Σ = L Lᵀ
02 | \mu | mu | mean of one weight under q
02 | \sigma | log_sigma2 | standard deviation; in later lessons log σ² is learned
02 | \epsilon | | standard normal noise
02 | \rho | | correlation
03 | \phi | | nonlinearity of a hidden unit
03 | \Phi | | feature matrix: hidden units (columns) at all inputs (rows)
03 | k | | kernel function: prior covariance of two outputs (of a network: times 1/β); index of a
    component of noise
03 | C | | kernel matrix over the training inputs
03 | C_\ast,\ C_{\ast\ast} | | the same, training × test and test × test inputs
03 | \sigma_w^2,\ \sigma_b^2 | | variances of hidden weights and of hidden biases
03 | d | | number of inputs of a network
03 | \ell | length_scale | length-scale
03 | l | | index of a layer
03 | \psi | | angle: its cosine is the correlation of two pre-activations
03 | \omega | | angle of a random weight vector
03 | u | | pre-activation of a hidden unit
03 | Y | | targets of several outputs, one column each
04 | \Theta | theta | parameters of q: the weights of a layer before any noise
04 | H | | entropy, in nats
04 | \mathcal L | loss | loss: of one example, or of all training examples
05 | \bar p | | class probabilities averaged over draws
06 | B | batch_size | number of examples in a minibatch
06 | \gamma | | mean of an activation
06 | \delta | | variance of an activation
06 | \zeta | | standard normal noise of an activation
07 | \xi | xi | multiplicative noise on a unit, with mean one
07 | \alpha | alpha, log_alpha | variance of the multiplicative noise
07 | F | | Dawson's integral
07 | \nu | nu | uniform random number between 0 and 1
07 | r | | 1/(2α): half the precision of the multiplicative noise
08 | \hat w | w_hat, z_score | estimate of a weight from the data, in standard errors: its z-score
08 | \text{kl\_weight} | kl_weight | factor on the KL term: below 1 in a warm-up or a tempered
    objective
09 | w_\text{out},\ b_\text{out} | w_out, b_out | weights and bias of one output
09 | \kappa | | position on a segment, from 0 to 1
09 | \mathcal D | | training data
10 | w_{\min} | | size of a weight below which a log-uniform prior is truncated
10 | \text{near} | near | size of a weight below which we call it near zero
10 | Z | | marginal likelihood under a truncated prior, unnormalised
10 | \Gamma | | incomplete gamma function
10 | A | | cell of a partition
10 | \text{width} | width | width of the cells of a grid
10 | D | | number of weights
11 | T | | number of Householder reflections
11 | t | | index of a reflection
11 | v | v | Householder vector
11 | \eta | eta | noise of mean zero, before or after the reflections
11 | U | U | product of the T reflections, an orthogonal matrix
11 | \tilde\alpha | noise_var | variance of ξ after the reflections
11 | V | vectors | matrix of the Householder vectors, one in each row
11 | G | | lower triangle of V Vᵀ with half its diagonal
11 | P | | Vᵀ G⁻¹ V, so that U = I − P
12 | g | g | random scale of an input unit (the paper writes z)
12 | J | jacobian | Jacobian of the network's outputs in a layer's input
12 | \mathcal H | hessian | Hessian of the loss in a layer's input
12 | \mathcal Q | | covariance of a layer's input under the noise
12 | R | penalty | penalty that noise adds to the loss, in nats
12 | \Omega | omega | diag(h) 𝓗 diag(h): sensitivity to relative noise
13 | M | M | number of splits of a data set, or of networks trained in one batch
13 | \Delta | | difference of the scores of two methods on a split
14 | \text{scale} | | factor on the covariance matrix of q
15 | \text{cost\_of\_error},\ \text{cost\_of\_abstaining} | cost_of_error, cost_of_abstaining |
    what a wrong answer costs, and what none costs
15 | \text{coverage},\ \text{risk} | coverage, risk | share of the inputs that are answered;
    share of wrong answers among these
15 | \text{gain} | | expected fall of the entropy of the weights by a label
"""
SYMBOLS = [
    Symbol(*(" ".join(cell.split()) for cell in row.split("|")))
    for row in re.split(r"\n(?=\d\d \|)", _ROWS.strip())
]
