import math
import sys
from copy import deepcopy
from functools import partial

import pytest
import torch
from torch import nn
from tqdm import tqdm

from bdl_lessons.inference import adam, fit, sgd
from bdl_lessons.inference.train import minibatches
from bdl_lessons.models import BinaryDropout, Deterministic, Network, mlp
from bdl_lessons.probability import gaussian_nll
from tests.draws import normal, seeded
from tests.tables import refused


def line(n=40):
    x = normal(n, 3, seed=1)
    return x, x @ torch.tensor([[1.0], [-2.0], [0.5]], dtype=torch.float64)


X, Y = line()
NLL = partial(gaussian_nll, tau=3.0)
NO_CHANGE = sgd(0.0)


def train(model, x=X, y=Y, nll=NLL, n_steps=4, optimizer=NO_CHANGE, **options):
    """Losses of training, by default on the line and without changing anything."""
    return fit(
        model,
        x,
        y,
        nll,
        n_steps=n_steps,
        optimizer=optimizer,
        generator=seeded(),
        **options,
    )


def prior_of_two():
    return mlp((3, 4, 1), partial(Deterministic, length_scale=2.0)).double()


def test_dropout_in_linear_regression_reaches_the_ridge_solution():
    """The optimum of ``nll + kl/N`` with input noise xi, E[xi]=1, Var[xi]=p/keep, in closed form:
    ``tau X'X + tau p/keep diag(X'X) + l^2/keep I``."""
    p_drop = 0.25
    tau = 2.0
    length_scale = 3.0
    x, y = line()
    layer = BinaryDropout(nn.Linear(3, 1), p_drop, length_scale)
    model = Network(layer).double()
    torch.nn.init.zeros_(model[0].bias).requires_grad_(False)
    train(
        model,
        x.repeat(500, 1),
        y.repeat(500, 1),
        nll=partial(gaussian_nll, tau=tau),
        n_steps=500,
        optimizer=adam(0.1),
        schedule=lambda step: 1 / (1 + 0.05 * step),
        kl_weight=500.0,  # the same prior for 500 times the data
    )
    gram = x.T @ x
    keep = 1 - p_drop
    of_data = tau * (gram + p_drop / keep * gram.diag().diag())
    of_prior = length_scale**2 / keep * torch.eye(3)
    exact = torch.linalg.solve(of_data + of_prior, tau * x.T @ y)
    torch.testing.assert_close(model[0].weight.detach().T, exact, atol=0.02, rtol=0)


@pytest.mark.parametrize("batch_size", [None, 5, 10])
def test_loss_is_nll_plus_weighted_kl_per_example_of_the_training_set(batch_size):
    (x, y) = line()
    model = prior_of_two()
    losses = train(model, kl_weight=0.5, batch_size=batch_size)
    kl = model.kl().detach()
    without = train(model, kl_weight=0.0, batch_size=batch_size)
    expected = (0.5 * kl / len(x)).expand(4)
    torch.testing.assert_close(losses - without, expected, atol=1e-9, rtol=1e-9)
    if batch_size is None:
        nll = gaussian_nll(model(x, "mean"), y, 3.0)
        torch.testing.assert_close(without, nll.detach().expand(4))


def test_a_kl_weight_may_change_from_step_to_step():
    model = prior_of_two()
    steps = []
    changing = train(model, kl_weight=lambda step: steps.append(step) or step / 2)
    assert steps == [0, 1, 2, 3]
    expected = torch.tensor([0.0, 0.5, 1.0, 1.5], dtype=torch.float64) * model.kl().detach() / 40
    difference = changing - train(model, kl_weight=0.0)
    torch.testing.assert_close(difference, expected, atol=1e-9, rtol=1e-9)


def test_an_epoch_has_full_minibatches_of_examples_that_differ_in_a_new_order():
    x = torch.arange(7.0)
    batches = minibatches(x, x, 3, seeded(5))
    epochs = [torch.cat([next(batches)[0] for _ in range(2)]).tolist() for _ in range(2)]
    assert [len({*epoch}) for epoch in epochs] == [6, 6]
    assert epochs[0] != epochs[1]
    several = minibatches(x.expand(2, 7), x.expand(2, 7), 3, seeded(5), batched=True)
    orders = torch.cat([next(several)[0] for _ in range(2)], 1).tolist()  # of two networks
    assert [len({*order}) for order in orders] == [6, 6]
    assert orders[0] != orders[1]
    everything = minibatches(x, x, None, seeded())
    assert next(everything)[0] is next(everything)[1] is x


def test_a_step_is_that_of_pytorchs_optimizer():
    """Momentum, the schedule and gradients that start at zero, against the loop by hand."""
    x, y = line()
    models = [mlp((3, 1), Deterministic).double() for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    train(
        models[0],
        optimizer=sgd(0.01, 0.5),
        schedule=lambda step: 1 / (1 + step),
        kl_weight=0.0,
    )
    velocity = [torch.zeros_like(parameter) for parameter in models[1].parameters()]
    for step in range(4):
        loss = gaussian_nll(models[1](x, "mean"), y, 3.0)
        for i, slope in enumerate(torch.autograd.grad(loss, list(models[1].parameters()))):
            velocity[i] = 0.5 * velocity[i] + slope
        for parameter, change in zip(models[1].parameters(), velocity, strict=True):
            parameter.data -= 0.01 / (1 + step) * change
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_long_work_shows_a_bar_and_short_work_does_not(monkeypatch, capsys):
    def shown(long=True, disabled=False, terminal=True, progress=True):
        monkeypatch.setattr("bdl_lessons.inference.train._BAR_AFTER_S", 0 if long else 5)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
        monkeypatch.setenv("TQDM_DISABLE", "1")
        if not disabled:
            monkeypatch.delenv("TQDM_DISABLE")
        train(prior_of_two(), progress=progress)
        out, err = capsys.readouterr()
        assert out == ""
        return err

    monkeypatch.setattr("bdl_lessons.inference.train.tqdm", tqdm)
    for silent in ({"long": False}, {"disabled": True}, {"progress": False}, {"terminal": False}):
        assert shown(**silent) == ""
    bar = shown()
    assert "0/4" in bar
    assert "step" in bar


def test_an_optimizer_of_pytorch_trains_as_what_makes_it_does():
    models = [prior_of_two() for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    expected = train(models[0], optimizer=adam(0.01))
    optimizer = torch.optim.Adam(models[1].parameters(), lr=0.01)
    torch.testing.assert_close(train(models[1], optimizer=optimizer), expected)
    assert len(optimizer.state) == 4


@pytest.mark.parametrize(("step", "n_steps"), [(5, 9), (150, 260), (259, 260)])
def test_a_diverged_loss_names_its_step(step, n_steps):
    """Steps are looked at a hundred at a time; the message names the first bad one."""
    calls = iter(range(n_steps))

    def nll(output, target):
        return output.square().mean() * (math.nan if next(calls) == step else 1)

    with pytest.raises(FloatingPointError, match=f"nan at step {step}:"):
        train(mlp((3, 2), Deterministic).double(), nll=nll, n_steps=n_steps)


DRAWS_BY_ITSELF = Network(Deterministic(nn.Linear(3, 1)), nn.Dropout()).double()
OTHERS = torch.optim.Adam(mlp((3, 1), Deterministic).parameters())
PLAIN = mlp((3, 1), Deterministic).double()

test_bad_arguments_are_named = refused(
    (lambda: train(PLAIN, batch_size=41), "batch_size"),
    (lambda: train(PLAIN, X, torch.ones(3, 1)), "x must be .* and y"),
    (
        lambda: train(PLAIN, X.float(), Y),
        r"x must have .* torch.float64 .*got torch.float32.*x\.to\(",
    ),
    (lambda: train(PLAIN, X, Y.float()), "y must have the dtype .* torch.float64"),
    (lambda: train(PLAIN, kl_weight=torch.ones(3)), "kl_weight"),
    (lambda: train(DRAWS_BY_ITSELF), "nn.Dropout at '1', which draws by itself"),
    (lambda: train(PLAIN, optimizer=OTHERS), "optimizer must have the parameters"),
    (lambda: train(PLAIN, optimizer=lambda parameters: None), "optimizer must be one"),
    (lambda: train(deepcopy(PLAIN).requires_grad_(False)), "nothing to train"),
)
