"""Active learning on the digits: pools, scores, and the layout of what is stored."""

import itertools

import numpy as np
import pytest
import torch

from bdl_lessons.evaluation import mutual_information
from bdl_lessons.panels import arrays
from reproductions.panel_arrays import asking_for_labels as experiment
from tests.draws import normal, seeded


def test_an_ambiguous_input_is_the_mean_of_two_classes_and_has_the_label_of_one():
    pool = experiment.pool(3, share=0.4)
    clean = experiment.pool(3, share=0.0)
    assert torch.equal(pool["x"][:600], clean["x"][:600])  # bits: the same images are taken
    assert torch.equal(pool["y"][:600], clean["y"][:600])  # bits: labels
    for x, y in zip(pool["x"][600:615], pool["y"][600:615], strict=True):
        distance = torch.cdist(2 * x[None] - clean["x"], clean["x"])
        first, second = (distance < 1e-5).nonzero()[0]
        classes = {clean["y"][first].item(), clean["y"][second].item()}
        assert len(classes) == 2
        assert y.item() in classes


def test_the_first_labels_are_two_clean_ones_of_each_class():
    pool = experiment.pool(0, share=0.4)
    first_labels = pool["y"][pool["start"]]
    assert first_labels.bincount().tolist() == [2] * 10
    assert pool["start"].max() < 600


def test_scores_are_those_of_the_package_and_of_counting():
    logits = normal(6, 2, 5, 10).float()
    log_probs = logits.log_softmax(-1)
    information = experiment.score("mutual information", log_probs, seeded())
    expected = torch.stack([mutual_information(logits[:, m]) for m in range(2)])
    assert torch.allclose(information, expected, atol=1e-5)
    votes = log_probs.argmax(-1)
    ratios = experiment.score("variation ratios", log_probs, seeded())
    for m, n in itertools.product(range(2), range(5)):
        n_most = votes[:, m, n].bincount().max().item()
        random_part = ratios[m, n] - (1 - n_most / 6)
        assert 0 <= random_part <= 1 / (2 * experiment.N_DRAWS)
    entropies = experiment.score("plain network, entropy", log_probs[:1], seeded())
    expected = torch.distributions.Categorical(logits=logits[0]).entropy()
    assert torch.allclose(entropies, expected)


def test_a_mask_acts_on_the_hidden_units_and_is_shared_by_all_inputs():
    weights = experiment.train(
        x=normal(2, 4, 64).float(),
        y=torch.zeros(2, 4).long(),
        p_drop=0.5,
        width=7,
        n_steps=1,
        generator=seeded(),
    )
    x = normal(2, 3, 64).float()
    twice = torch.cat([x, x], dim=1)
    draws = experiment.draws(weights, twice, n_networks=1, p_drop=0.5, generator=seeded())
    assert torch.allclose(draws[:, :, :3], draws[:, :, 3:], atol=1e-6)
    assert draws.shape == (experiment.N_DRAWS, 2, 6, 10)
    assert draws.std(0).max() > 0.01
    mean = draws.exp().mean(0)
    assert torch.allclose(mean.sum(-1), torch.ones(2, 6), atol=1e-5)


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_no_label_is_bought_twice_and_the_layout_is_that_of_the_stored_arrays(share):
    computed = experiment.ask(share, n_seeds=2, n_steps=2)
    stored = arrays.load("asking_for_labels")
    assert len(stored["rules"]) == len(computed["accuracy"])
    for key, values in computed.items():
        assert values.dtype == stored[key].dtype, key
        assert np.isfinite(values).all()
    assert computed["accuracy"].shape[2:] == stored["accuracy"].shape[3:]
    assert computed["images"].shape == stored["images"][:, 0].shape
    for images in computed["images"]:
        different = {image.tobytes() for image in images.reshape(-1, 64)}
        assert len(different) >= 78
    if share == 0:
        assert not computed["is_ambiguous"].any()


def test_a_setting_differs_in_one_thing_and_gives_gaps_to_random_labels():
    gaps = experiment.vary({"batch": 20, "width": 5}, n_seeds=2, n_steps=2)
    stored = arrays.load("asking_for_labels")["varied_gap"]
    assert gaps.shape == stored[0, ..., :2].shape
    assert all(len(setting) == 1 for setting in experiment.VARIED.values())
