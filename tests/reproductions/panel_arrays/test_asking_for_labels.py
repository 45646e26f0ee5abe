"""Active learning on the digits: pools, scores, and the layout of what is stored."""

import numpy as np
import pytest
import torch

from bdl_lessons.evaluation import mutual_information
from bdl_lessons.panels import arrays
from reproductions.panel_arrays import asking_for_labels as experiment
from tests.draws import normal, seeded


def test_an_ambiguous_input_is_the_mean_of_two_classes_and_has_the_label_of_one():
    made = experiment.pool(3, share=0.4)
    clean = experiment.pool(3, share=0.0)
    assert torch.equal(made["x"][:600], clean["x"][:600])  # bits: the same images are taken
    assert torch.equal(made["y"][:600], clean["y"][:600])  # bits: labels
    for x, y in zip(made["x"][600:615], made["y"][600:615], strict=True):
        distance = torch.cdist(2 * x[None] - clean["x"], clean["x"])
        first, second = (distance < 1e-5).nonzero()[0]
        classes = {clean["y"][first].item(), clean["y"][second].item()}
        assert len(classes) == 2
        assert y.item() in classes


def test_the_first_labels_are_two_clean_ones_of_each_class():
    made = experiment.pool(0, share=0.4)
    assert sorted(made["y"][made["start"]].tolist()) == sorted(2 * [*range(10)])
    assert made["start"].max() < 600


def test_scores_are_those_of_the_package_and_of_counting():
    logits = normal(6, 2, 5, 10).float()
    log_probs = logits.log_softmax(-1)
    found = experiment.score("mutual information", log_probs, seeded())
    expected = torch.stack([mutual_information(logits[:, m]) for m in range(2)])
    assert torch.allclose(found, expected, atol=1e-5)
    votes = log_probs.argmax(-1)
    ratios = experiment.score("variation ratios", log_probs, seeded())
    for m in range(2):
        for n in range(5):
            most = votes[:, m, n].bincount().max().item()
            assert 0 <= ratios[m, n] - (1 - most / 6) <= 1 / (2 * experiment.N_DRAWS)
    entropies = experiment.score("plain network, entropy", log_probs[:1], seeded())
    assert torch.allclose(entropies, torch.distributions.Categorical(logits=logits[0]).entropy())


def test_a_mask_acts_on_the_hidden_units_and_is_shared_by_all_inputs():
    weights = experiment.train(
        normal(2, 4, 64).float(), torch.zeros(2, 4).long(), 0.5, 7, 1, seeded()
    )
    x = normal(2, 3, 64).float()
    passes = experiment.draws(weights, torch.cat([x, x], dim=1), 1, 0.5, seeded())
    assert torch.allclose(passes[:, :, :3], passes[:, :, 3:], atol=1e-6)
    assert passes.shape == (experiment.N_DRAWS, 2, 6, 10)
    assert passes.std(0).max() > 0.01
    mean = passes.exp().mean(0)
    assert torch.allclose(mean.sum(-1), torch.ones(2, 6), atol=1e-5)


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_no_label_is_bought_twice_and_the_layout_is_that_of_the_stored_arrays(share):
    made = experiment.ask(share, n_seeds=2, n_steps=2)
    stored = arrays.load("asking_for_labels")
    assert len(stored["rules"]) == len(made["accuracy"])
    for key, values in made.items():
        assert values.dtype == stored[key].dtype, key
        assert np.isfinite(values).all()
    assert made["accuracy"].shape[2:] == stored["accuracy"].shape[3:]
    assert made["images"].shape == stored["images"][:, 0].shape
    for images in made["images"]:
        assert len({image.tobytes() for image in images.reshape(-1, 64)}) >= 78
    if share == 0:
        assert not made["is_ambiguous"].any()


def test_a_setting_differs_in_one_thing_and_gives_gaps_to_random_labels():
    gaps = experiment.vary({"batch": 20, "width": 5}, n_seeds=2, n_steps=2)
    assert gaps.shape == arrays.load("asking_for_labels")["varied_gap"][0, ..., :2].shape
    assert all(len(setting) == 1 for setting in experiment.VARIED.values())
