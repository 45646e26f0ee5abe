"""Answers to lesson 06 that draw in another way pass; those that share noise wrongly do not."""

import pytest
import torch

from bdl_lessons.exercises.grader import find, grade


def normal(*shape, generator):
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def signs(*shape, generator):
    return 2.0 * torch.randint(2, shape, generator=generator).double() - 1


def flipped(shape_in, shape_out):
    """Flipout with signs of these shapes, in which B, K and Q are the sizes, 1 is shared."""

    def answer(x, mu, sigma, rng):
        sizes = {"B": len(x), "K": mu.shape[0], "Q": mu.shape[1], "1": 1}
        flip_in, flip_out = (
            signs(*(sizes[axis] for axis in shape), generator=rng)
            for shape in (shape_in, shape_out)
        )
        noise = sigma * normal(*mu.shape, generator=rng)
        return x @ mu + ((x * flip_in) @ noise) * flip_out

    return answer


def flipped_one_by_one(x, mu, sigma, rng):
    noise = sigma * normal(*mu.shape, generator=rng)
    weights = [
        mu + noise * torch.outer(*(signs(size, generator=rng) for size in mu.shape)) for _ in x
    ]
    return torch.stack([example @ w for example, w in zip(x, weights, strict=True)])


@pytest.mark.parametrize("answer", [flipped("BK", "BQ"), flipped_one_by_one])
def test_flipout_that_draws_in_another_way_is_right(answer):
    assert grade(find("06.3"), answer).solved


@pytest.mark.parametrize(
    ("shapes", "claim"),
    [
        (("1K", "1Q"), "no two activations of a minibatch are correlated"),
        (("B1", "B1"), "inputs have signs of their own"),
        (("1K", "BQ"), "inputs have signs of their own"),
        (("BK", "1Q"), "outputs have signs of their own"),
        (("BK", "B1"), "outputs have signs of their own"),
    ],
)
def test_flipout_without_signs_for_each_example_input_and_output_is_found(shapes, claim):
    lines = grade(find("06.3"), flipped(*shapes)).lines
    assert any(line.startswith(f"no   {claim}") for line in lines)


def with_bias_noise(shape):
    """A layer whose weights are drawn locally; the noise of the bias has this shape."""

    def answer(x, mu, sigma, bias_mu, bias_sigma, rng):
        sizes = {"B": len(x), "Q": mu.shape[1], "1": 1}
        delta = x**2 @ sigma**2
        noise = normal(len(x), mu.shape[1], generator=rng)
        bias = bias_mu + bias_sigma * normal(*(sizes[axis] for axis in shape), generator=rng)
        return x @ mu + delta.sqrt() * noise + bias

    return answer


@pytest.mark.parametrize(("shape", "solved"), [("BQ", True), ("1Q", False), ("B1", False)])
def test_every_example_and_unit_needs_noise_of_its_own_for_the_bias(shape, solved):
    assert grade(find("06.4"), with_bias_noise(shape)).solved == solved
