"""Monte Carlo prediction against all sub-networks, closed forms and the loop of forward passes."""

from functools import partial

import pytest
import torch
from scipy.stats import chi2
from torch import nn

from bdl_lessons import models
from bdl_lessons.inference.prediction import predict
from bdl_lessons.probability import all_masks, mask_probs
from tests.draws import seeded
from tests.tables import refused

P_DROP = 0.3
PLAIN = models.Deterministic
DROP = partial(models.BinaryDropout, p_drop=P_DROP)


def tiny(activation=nn.ReLU):
    """3 hidden and 2 second hidden units: 32 sub-networks."""
    torch.manual_seed(1)
    return models.mlp((2, 3, 2, 1), [PLAIN, DROP, DROP], activation).double()


def sub_networks(model, x):
    """Outputs of all 32 sub-networks at ``x``, ``(32, B, 1)``, and their probabilities."""
    first, _, second, _, third = model
    outputs = []
    probs = []
    for z in all_masks(5):
        h = model[1](first(x, "mean")) * z[:3] / (1 - P_DROP)
        h = model[3](second(h, "mean")) * z[3:] / (1 - P_DROP)
        outputs.append(third(h, "mean"))
        probs.append(mask_probs(z, P_DROP))
    return torch.stack(outputs).detach(), torch.stack(probs)


@pytest.mark.parametrize("sampling", ["per_example", "shared"])
def test_outputs_are_distributed_as_the_enumerated_sub_networks(sampling):
    model = tiny(nn.Tanh)  # under tanh no two sub-networks agree
    x = torch.tensor([0.7, -0.4], dtype=torch.float64).expand(2, 2)
    members, probs = sub_networks(model, x[:1])
    draws = predict(model, x, 4000, sampling, generator=seeded(3))
    draws = (draws[:, 0] if sampling == "shared" else draws).flatten()
    members = members.flatten()
    distance = (draws[:, None] - members).abs()
    assert distance.amin(1).max() < 1e-12

    in_order = members.sort().values  # some sub-networks have one output
    is_new = in_order.diff(prepend=in_order[:1] - 1) > 1e-9
    outputs = in_order[is_new]
    has_output = (members - outputs[:, None]).abs() < 1e-9
    expected = len(draws) * has_output.double() @ probs
    counts = ((draws - outputs[:, None]).abs() < 1e-9).sum(1)
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert statistic < chi2.ppf(1 - 1e-4, len(outputs) - 1)


METHODS = {
    "dropout": DROP,
    "structured": models.StructuredDropout,
    "weights": partial(models.BayesByBackprop, init_log_sigma2=-2.0),
}


@pytest.mark.parametrize("chunk_rows", [1, 7, 90, 2000])
@pytest.mark.parametrize("method", METHODS)
def test_one_sample_is_one_function_however_many_examples_fit(method, chunk_rows):
    """At a combination of two inputs a linear network gives that of their outputs, if both are
    computed with the same weights."""
    network = models.initialise(models.mlp((6, 5), METHODS[method]), seeded(4))
    first = torch.randn(40, 6, generator=seeded(18))
    second = torch.randn(40, 6, generator=seeded(19))
    x = torch.cat([first, second, first + second])
    draws = predict(network, x, 7, "shared", generator=seeded(19), chunk_rows=chunk_rows)
    assert draws.shape == (7, 120, 5)
    of_first, of_second, of_sum = draws.split(40, dim=1)
    torch.testing.assert_close(of_first + of_second, of_sum)  # the biases are 0
    change_to_next = (draws[1:] - draws[:-1]).abs().amax((1, 2))
    assert change_to_next.min() > 1e-3


@pytest.mark.parametrize("method", METHODS)
def test_draws_are_forward_passes_along_the_sample_axis(method):
    network = models.initialise(models.mlp((6, 40, 30, 2), METHODS[method]), seeded(4))
    x = torch.randn(9, 6, generator=seeded(18))
    for sampling in ("per_example", "shared"):
        expected = network(x.expand(7, 9, 6), sampling, seeded(5)).detach()
        draws = predict(network, x, 7, sampling, generator=seeded(5))
        torch.testing.assert_close(draws, expected)


@pytest.mark.parametrize("sampling", ["per_example", "shared"])
def test_the_largest_forward_pass_has_as_many_rows_as_the_caller_set(sampling):
    network = models.mlp((3, 8, 2), DROP)
    rows = []
    network[1].register_forward_pre_hook(lambda module, inputs: rows.append(len(inputs[0])))
    draws = predict(network, torch.ones(5, 3), 40, sampling, generator=seeded(), chunk_rows=20)
    assert draws.shape == (40, 5, 2)
    assert max(rows) == 20
    assert sum(rows) == 200


def test_a_drawn_matrix_of_weights_counts_as_its_rows():
    network = models.mlp((3, 95, 2), models.BayesByBackprop)
    samples = []
    network[1].register_forward_pre_hook(lambda module, inputs: samples.append(len(inputs[0])))
    predict(network, torch.ones(5, 3), 40, "shared", generator=seeded(), chunk_rows=200)
    assert max(samples) == 2 * 5  # 2 matrices of 95 rows and their 5 examples


def test_modules_without_noise_see_no_sample_axis():
    plain = nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    network = models.wrap(plain, DROP).eval()
    network[2].running_mean.copy_(torch.arange(4.0))
    x = torch.randn(4, 2, 3, generator=seeded(1))
    draws = predict(network, x, 4, "shared", generator=seeded(2))
    assert draws.shape == (4, 4, 2)
    network[1].p_drop = network[3].p_drop = 0.0
    draws = predict(network, x, 3, generator=seeded(2))
    torch.testing.assert_close(draws, network(x, "mean").expand(3, 4, 2).detach())


BATCH_NORM = models.Network(DROP(nn.Linear(2, 3)), nn.BatchNorm1d(3))
DRAWS_BY_ITSELF = models.Network(DROP(nn.Linear(2, 3)), nn.Dropout(0.5)).eval()
ALPHA_DROPOUT = models.Network(nn.Sequential(nn.AlphaDropout()), DROP(nn.Linear(2, 3)))
NETWORK = models.mlp((2, 4, 1), DROP)
X = torch.ones(3, 2)


def predicted(model=NETWORK, x=X, sampling="shared", **options):
    return predict(model, x, 2, sampling, generator=seeded(), **options)


test_bad_arguments_are_named = refused(
    (lambda: predicted(sampling="mean"), "nothing to draw"),
    (lambda: predicted(nn.Linear(2, 1)), "Network"),
    (lambda: predicted(BATCH_NORM), r"call model\.eval"),
    (
        lambda: predicted(DRAWS_BY_ITSELF),
        r"nn\.Dropout at '1', which draws by itself.*BinaryDropout",
    ),
    (lambda: predicted(ALPHA_DROPOUT), r"nn\.AlphaDropout at '0\.0'"),
    (lambda: predicted(x=X.double()), "x must have the dtype .* the model"),
    (lambda: predicted(x=torch.ones(100, 3)), "x must have 2 input units"),
    (lambda: predicted(chunk_rows=0), "chunk_rows must be >= 1"),
)
