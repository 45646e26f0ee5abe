"""Monte Carlo prediction against all sub-networks, closed forms and the loop of forward passes."""

import pytest
import torch
from scipy.stats import chi2
from torch import nn

from bdl_lessons import models
from bdl_lessons.inference import prediction
from bdl_lessons.inference.prediction import predict
from bdl_lessons.probability import all_masks, mask_probs
from tests.draws import seeded
from tests.tables import refused

P_DROP = 0.3
PLAIN = models.Deterministic()
DROP = models.BinaryDropout(P_DROP)


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
    draws = draws[:, :1] if sampling == "shared" else draws.reshape(-1, 1, 1)
    distance = (draws[:, None] - members).abs()[..., 0, 0]
    assert distance.amin(1).max() < 1e-12
    outputs = members.flatten().sort().values  # some sub-networks have one output
    distinct = outputs[outputs.diff(prepend=outputs[:1] - 1) > 1e-9]
    near = [((values.flatten() - distinct[:, None]).abs() < 1e-9) for values in (members, draws)]
    expected = near[0].double() @ probs
    counts = near[1].sum(1)
    statistic = ((counts - len(draws) * expected) ** 2 / (len(draws) * expected)).sum()
    assert statistic < chi2.ppf(1 - 1e-4, len(distinct) - 1)


@pytest.mark.parametrize("n_rows", [1, 7, 70])
@pytest.mark.parametrize("layers", [DROP, [PLAIN, DROP, DROP], [DROP, PLAIN, DROP]], ids=str)
def test_functions_are_forward_passes_however_many_examples_fit(layers, n_rows, monkeypatch):
    torch.manual_seed(4)
    model = models.mlp((6, 40, 30, 2), layers)
    x = torch.randn(90, 6, generator=seeded(18))
    monkeypatch.setattr(prediction, "_ROWS_CPU", n_rows)
    g = seeded(19)
    draws = {m: m.sample_weights(7, g) for m in model if getattr(m, "is_random", False)}
    h = x.expand(7, 90, 6)
    for m in model:
        h = m.forward_with(h, draws[m]) if m in draws else m(h, *["mean"] * hasattr(m, "noise"))
    found = predict(model, x, 7, "shared", generator=seeded(19))
    torch.testing.assert_close(found, h.detach())


def test_memory_is_bounded_by_bytes(monkeypatch):
    """With room for one draw of the weights at a time, or for one example, as one by one."""
    net = models.initialise(
        models.mlp((3, 8, 2), models.BayesByBackprop(init_log_sigma2=-2.0)), seeded()
    )
    x = torch.randn(5, 3, generator=seeded(1))
    monkeypatch.setattr(prediction, "_BYTES", 1)
    g = seeded(2)
    alone = torch.cat([predict(net, x, 1, "shared", generator=g) for _ in range(4)])
    torch.testing.assert_close(predict(net, x, 4, "shared", generator=seeded(2)), alone)
    rows = predict(net, x, 4, generator=seeded(2))
    monkeypatch.setattr(prediction, "_BYTES", 2**31)
    monkeypatch.setattr(prediction, "_ROWS_CPU", 1)
    torch.testing.assert_close(predict(net, x, 4, generator=seeded(2)), rows)


BATCH_NORM = models.Network(DROP.linear(2, 3), nn.BatchNorm1d(3))
NETWORK = models.mlp((2, 4, 1), DROP)
X = torch.ones(3, 2)


def predicted(model=NETWORK, x=X, sampling="shared"):
    return predict(model, x, 2, sampling, generator=seeded())


test_bad_arguments_are_named = refused(
    (lambda: predicted(sampling="mean"), "nothing to draw"),
    (lambda: predicted(nn.Linear(2, 1)), "Network"),
    (lambda: predicted(BATCH_NORM), r"call model\.eval"),
    (lambda: predicted(x=X.double()), "x must have the dtype .* the model"),
    (lambda: predicted(x=torch.ones(100, 3)), r"x of shape \(100, 3\) does not fit"),
)
