"""The networks for images: their numbers of parameters and shapes."""

import pytest
import torch

from bdl_lessons.models import BinaryDropout
from reproductions.images.architectures import alexnet, lenet5_classic

DROP = BinaryDropout(0.5)


@pytest.mark.parametrize(("size", "channels"), [(28, 1), (32, 3)])
def test_lenet5_classic_has_the_widths_of_1998(size, channels):
    model = lenet5_classic(DROP, in_channels=channels, size=size)
    n_weights = sum(parameter.numel() for parameter in model.parameters())
    assert n_weights == 61_706 + 6 * 25 * (channels - 1)
    x = torch.randn(3, channels, size, size)
    assert model(x, "shared", torch.Generator()).shape == (3, 10)
    assert model[0](x, "mean").shape == (3, 6, 28, 28)


@pytest.mark.parametrize(("size", "features"), [(32, 256), (96, 256 * 9)])
def test_alexnet_is_the_cifar_version(size, features):
    model = alexnet(DROP, size=size)
    assert model[-1].in_features == features
    if size == 32:
        assert sum(parameter.numel() for parameter in model.parameters()) == 2_472_266
    x = torch.randn(2, 3, size, size)
    assert model(x, "per_example", torch.Generator()).shape == (2, 10)
