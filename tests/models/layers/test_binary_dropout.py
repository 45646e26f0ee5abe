import pytest
import torch

from bdl_lessons.models import BinaryDropout, Deterministic


def mixture_kl(means, keep, length_scale, noise_std, n=40_000):
    """KL(q || prior) in nats by sampling, q the two-component mixture of each row of M."""
    generator = torch.Generator().manual_seed(0)
    total = 0.0
    for row in means:
        q = torch.distributions.MixtureSameFamily(
            torch.distributions.Categorical(torch.tensor([keep, 1 - keep]).double()),
            torch.distributions.Independent(
                torch.distributions.Normal(torch.stack([row, 0 * row]), noise_std), 1
            ),
        )
        kept = (torch.rand(n, 1, generator=generator) < keep).double()
        w = kept * row + noise_std * torch.randn(n, len(row), generator=generator).double()
        prior = torch.distributions.Normal(0.0, 1 / length_scale)
        total += (q.log_prob(w) - prior.log_prob(w).sum(-1)).mean().item()
    return total


def test_kl_differences_are_those_of_the_mixture():
    """The constant is infinite, so only differences mean something; they match in nats."""
    p_drop, length_scale = 0.2, 0.7
    theta = torch.tensor([[2.0, -1.5, 1.0], [0.8, 1.9, -2.2]], dtype=torch.float64)
    layer = BinaryDropout(p_drop, length_scale).linear(2, 3, bias=False).double()

    def kl(theta):
        with torch.no_grad():
            layer.weight.copy_(theta.T)
        return layer.kl()

    ours = kl(2 * theta) - kl(theta)
    keep = 1 - p_drop
    sampled = [mixture_kl(scale * theta / keep, keep, length_scale, 0.05) for scale in (2, 1)]
    assert ours.item() == pytest.approx(sampled[0] - sampled[1], rel=0.02)


@pytest.mark.parametrize("make", [lambda f: f.linear(5, 3), lambda f: f.conv2d(5, 3, 2)])
def test_layers_sum_over_all_their_weights(make):
    layer = make(BinaryDropout(0.25, length_scale=0.1)).double()
    expected = 0.01 / 2 * (layer.weight.square().sum() / 0.75 + layer.bias.square().sum())
    torch.testing.assert_close(layer.kl(), expected)
    plain = Deterministic(length_scale=3.0).linear(4, 2)
    expected = 4.5 * sum(parameter.square().sum() for parameter in plain.parameters())
    torch.testing.assert_close(plain.kl(), expected)
    assert not plain.is_random
