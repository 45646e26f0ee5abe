import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch.distributions import Normal, kl_divergence

from bdl_lessons.datasets import Standardiser
from bdl_lessons.models import initialise, mlp
from reproductions.uci import shift, shift_measures
from reproductions.uci.shift import METHODS, PairedTask
from reproductions.uci.training import networks
from tests.draws import normal, seeded

FAMILY = ("VSD, T = 0", "VSD, T = 2", "VSD, T = 2, frozen", "VSD, T = 8", "full covariance")
CONFIG = {"n_hidden": 8, "batch_size": 16, "n_steps": 12, "learning_rate": 0.03}


def rows_with_a_pair(n_rows, seed):
    """Two splits of four columns in different units, of which 1 and 3 belong together."""
    x = normal(2, n_rows, 4, seed=seed)
    x[..., 3] = -0.9 * x[..., 1] + 0.1 * x[..., 3]
    return x * torch.tensor([1.0, 10.0, 0.1, 5.0]) + 3


# --------------------------------------------------------------------------------- shifted inputs
def test_each_column_is_permuted_by_itself_and_by_the_split_alone():
    x_train = rows_with_a_pair(60, seed=1)
    x_test = rows_with_a_pair(30, seed=2)
    permuted = shift_measures.shifted_inputs(x_train, x_test)["permuted"]
    assert torch.equal(permuted.sort(1).values, x_test.sort(1).values)  # bits: copies
    orders = orders_of_columns(permuted, x_test)
    assert len(orders.flatten(0, 1).unique(dim=0)) == 8  # bits: integers
    other_test = x_test.flip(1)
    other = shift_measures.shifted_inputs(x_train + 1, other_test)["permuted"]
    assert torch.equal(orders_of_columns(other, other_test), orders)  # bits: integers


def orders_of_columns(permuted, given):
    """Where each entry of each permuted column stood, ``(S, K, B)``."""
    distances = torch.cdist(permuted.mT[..., None], given.mT[..., None])
    return distances.argmin(-1)


def test_the_pair_of_the_training_rows_is_swapped_in_standard_deviations():
    x_train = rows_with_a_pair(60, seed=1)
    x_test = normal(2, 30, 4, seed=2)
    x_test[..., 0] = x_test[..., 2]  # another pair among the test rows
    swapped = shift_measures.shifted_inputs(x_train, x_test)["swapped"]
    for of_training, given, new in zip(x_train, x_test, swapped, strict=True):
        scale = Standardiser.fit(of_training)
        expected = scale.transform(given)[:, [0, 3, 2, 1]]
        torch.testing.assert_close(scale.transform(new), expected)


# --------------------------------------------------------------------------------------- measures
def test_the_auroc_is_that_of_scikit_learn_with_ties():
    larger = torch.randint(0, 6, (3, 20), generator=seeded(1)).double() + 1
    smaller = torch.randint(0, 6, (3, 30), generator=seeded(2)).double()
    labels = [1] * 20 + [0] * 30
    scores = torch.cat([larger, smaller], dim=1)
    expected = [roc_auc_score(labels, row) for row in scores]
    assert shift_measures.auroc(larger, smaller).tolist() == pytest.approx(expected)


def test_the_kl_is_from_the_first_gaussian_to_the_second():
    mean_p, mean_q = normal(2, 7, seed=1)
    var_p, var_q = normal(2, 7, seed=2).exp()
    p = Normal(mean_p, var_p.sqrt())
    q = Normal(mean_q, var_q.sqrt())
    kl = shift_measures.gaussian_kl(mean_p, var_p, mean_q, var_q)
    torch.testing.assert_close(kl, kl_divergence(p, q))


def test_a_method_that_says_what_the_process_says_loses_nothing_and_one_that_is_sure_does():
    x_train = normal(2, 40, 3, seed=1)
    y_train = 50 + 20 * x_train[..., 0].sin() + normal(2, 40, seed=2)
    x = 2 * normal(2, 12, 3, seed=3)
    mean, var = shift_measures.gp_predictions(x_train, y_train, x)
    tau = torch.tensor([4.0, 9.0, 4.0, 9.0]).double()
    std_of_function = (var.repeat(2, 1) - 1 / tau[:, None]).sqrt()
    draws = mean.repeat(2, 1) + torch.stack([std_of_function, -std_of_function])
    draws_at = dict(zip(shift_measures.INPUTS, draws.split(4, dim=-1), strict=True))
    losses = shift_measures.loss_against_gp(draws_at, tau, mean, var)
    for loss in losses.values():
        torch.testing.assert_close(loss, torch.zeros(4).double(), atol=1e-6, rtol=0)
    half_as_wide = {name: (of_kind.mean(0) + of_kind) / 2 for name, of_kind in draws_at.items()}
    losses = shift_measures.loss_against_gp(half_as_wide, tau, mean, var)
    for loss in losses.values():
        assert (loss > 0.01).all()


def test_the_process_is_that_of_each_split_in_original_units():
    x_train = normal(2, 40, 1, seed=1)
    signs = torch.tensor([[1.0], [-1.0]])
    y_train = 100 + 10 * signs * x_train[..., 0]
    mean, var = shift_measures.gp_predictions(x_train, y_train, x_train[:, :5])
    torch.testing.assert_close(mean, y_train[:, :5], atol=0.5, rtol=0)
    assert (var < 1).all()


def test_correlations_are_looked_up_in_the_noise_and_can_be_taken_away():
    network = initialise(mlp((4, 6, 1), METHODS["full covariance"].layer), seeded(1))
    with torch.no_grad():
        network[0].lower.copy_(torch.randn(4, 4, generator=seeded(2)))
    measured = shift_measures.noise_of([network])
    cov = network[0].noise_cov().detach()
    std = cov.diagonal().sqrt()
    off_diagonal = [cov[i, j] / std[i] / std[j] for i in range(4) for j in range(i)]
    expected = torch.stack(off_diagonal).square().mean().sqrt()
    torch.testing.assert_close(measured["correlation"][0].float(), expected)
    assert measured["correlation_hidden"].tolist() == [0.0]
    torch.testing.assert_close(measured["alpha"][0], network[0].alpha.median().detach())

    alone = shift_measures.without_correlations(network)
    torch.testing.assert_close(alone[0].noise_cov(), torch.diag(cov.diagonal()))
    x = torch.randn(9, 4, generator=seeded(3))
    torch.testing.assert_close(alone(x, "mean"), network(x, "mean"))


# ---------------------------------------------------------------------------------- paired starts
def trained(name):
    """The generator after training, and the networks as they started."""
    x = torch.randn(2, 40, 4, generator=seeded(1))
    y = torch.randn(2, 40, generator=seeded(2))
    points = [{"kl_weight": 0.01, "min_alpha": 1e-9}, {"kl_weight": 0.1, "min_alpha": 1e-9}]
    task = PairedTask(points, x, y, CONFIG, seeded(3), seed=5, kept=[])
    starts = task.started(lambda point: METHODS[name].configured({"p_drop": 0.05} | point))
    starts = [starts.network(number) for number in range(2)]
    networks(METHODS[name], task)
    return task.generator.get_state(), starts


def test_weights_and_alphas_start_alike_under_every_kind_of_noise():
    _, expected = trained("VSD, T = 0")
    for name in FAMILY[1:]:
        _, starts = trained(name)
        for start, start_of_first in zip(starts, expected, strict=True):
            for layer, same in zip(start[::2], start_of_first[::2], strict=True):
                torch.testing.assert_close(layer.weight, same.weight)
                torch.testing.assert_close(layer.bias, same.bias)
                torch.testing.assert_close(layer.log_alpha, same.log_alpha)
    assert not torch.allclose(expected[0][0].weight, expected[1][0].weight)


def test_frozen_vectors_start_where_learned_ones_do():
    _, with_learned = trained("VSD, T = 2")
    _, with_frozen = trained("VSD, T = 2, frozen")
    for learned, frozen in zip(with_learned, with_frozen, strict=True):
        torch.testing.assert_close(learned[0].vectors, frozen[0].vectors)
        assert not torch.allclose(learned[0].vectors, learned[2].vectors[:, :4])


def test_training_draws_the_same_numbers_for_every_kind_of_noise():
    expected, _ = trained(FAMILY[0])
    for name in FAMILY[1:]:
        state, _ = trained(name)
        assert torch.equal(state, expected)  # bits: integers


def test_other_methods_start_from_the_same_weights():
    _, expected = trained("VSD, T = 0")
    for name in ("MAP", "MCD", "VD", "BBB-LRT"):
        _, starts = trained(name)
        torch.testing.assert_close(starts[0][0].weight, expected[0][0].weight)


# ----------------------------------------------------------------------------------------- trials
def test_both_sides_of_a_difference_have_a_trial():
    """Every method is compared with independent noise in its own setting."""
    settings = {}
    for trial in shift.trials("paper"):
        config = {**trial.config}
        method = config.pop("method")
        config.pop("n_starts")
        grid = config.pop("grid")
        if config["protocol"] == "tuned" or not grid:
            grid = [{}]
        for point in grid:
            setting = str((config, point))
            settings.setdefault(setting, set()).add(method)
    for methods in settings.values():
        assert "VSD, T = 0" in methods or methods == {"GP"}
