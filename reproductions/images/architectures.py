"""LeNet-5, AlexNet and ResNet18 from layer factories, as the tables on images use them."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from bdl_lessons.models import LayerFactory, Network, Sampling, StochasticLayer, apply_batched
from bdl_lessons.models.networks import Layers, one_each


def lenet5_classic(
    layers: Layers, n_classes: int = 10, in_channels: int = 1, size: int = 28
) -> Network:
    """LeNet-5 with the widths of LeCun et al. (1998), as used today: max pooling, all channels.

    ``(B, C, size, size)`` to logits; made for 32 x 32 pixels, to which 28 x 28 are padded.
    """
    conv1, conv2, dense1, dense2, dense3 = one_each(layers, 5)
    return Network(
        conv1.conv2d(in_channels, 6, 5, padding=(32 - size) // 2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        conv2.conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        dense1.linear(16 * 5 * 5, 120),
        nn.ReLU(),
        dense2.linear(120, 84),
        nn.ReLU(),
        dense3.linear(84, n_classes),
    )


def alexnet(layers: Layers, n_classes: int = 10, size: int = 32) -> Network:
    """AlexNet's five convolutions for small images: ``(B, 3, size, size)`` to logits.

    The version that is common on CIFAR, with one linear layer, from 29 x 29 pixels on.
    """
    conv1, conv2, conv3, conv4, conv5, dense = one_each(layers, 6)
    side = ((size - 1) // 4 + 1) // 8
    return Network(
        conv1.conv2d(3, 64, 11, stride=4, padding=5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        conv2.conv2d(64, 192, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        conv3.conv2d(192, 384, 3, padding=1),
        nn.ReLU(),
        conv4.conv2d(384, 256, 3, padding=1),
        nn.ReLU(),
        conv5.conv2d(256, 256, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        dense.linear(256 * side**2, n_classes),
    )


class Residual(StochasticLayer):
    """``relu(main(x) + shortcut(x))``, both branches under the same draw of the weights.

    A draw is a tuple: one draw for each random layer inside.
    """

    def __init__(self, main: Network, shortcut: Network) -> None:
        super().__init__()
        self.main, self.shortcut = main, shortcut
        layers = [module for module in (*main, *shortcut) if isinstance(module, StochasticLayer)]
        self._random_layers = [layer for layer in layers if layer.is_random]

    @property
    def is_random(self) -> bool:
        return bool(self._random_layers)

    def forward(
        self, x: Tensor, sampling: Sampling, generator: torch.Generator | None = None
    ) -> Tensor:
        main, shortcut = (branch(x, sampling, generator) for branch in (self.main, self.shortcut))
        return (main + shortcut).relu()

    def sample_weights(self, n_samples: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        return tuple(layer.sample_weights(n_samples, generator) for layer in self._random_layers)

    def forward_with(self, x: Tensor, draw: tuple[Tensor, ...]) -> Tensor:
        draws = iter(draw)
        return (_run(self.main, x, draws) + _run(self.shortcut, x, draws)).relu()

    def kl(self) -> Tensor:
        return self.main.kl() + self.shortcut.kl()


def resnet18(
    layers: LayerFactory, n_classes: int = 10, first: LayerFactory | None = None
) -> Network:
    """ResNet18 (He et al., CVPR 2016) with the stem made for ImageNet: ``(B, 3, H, W)`` to logits.

    The first block sees 32 x 32 pixels as 8 x 8. As in the original there are no biases before a
    batch norm, whose statistics are those of the batch after ``train()``, else the collected ones.
    ``first`` makes the first convolution, which sees the pixels; ``None``: as the others.
    """
    stem = (first or layers).conv2d(3, 64, 7, bias=False, stride=2, padding=3)
    blocks = []
    for n_in, n_out in ((64, 64), (64, 128), (128, 256), (256, 512)):
        stride = 1 if n_in == n_out else 2
        blocks += [_block(layers, n_in, n_out, stride), _block(layers, n_out, n_out, 1)]
    return Network(
        stem,
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        layers.linear(512, n_classes),
    )


def _block(layers: LayerFactory, n_in: int, n_out: int, stride: int) -> Residual:
    def normed(n_in: int, size: int, **how: int) -> tuple[nn.Module, nn.Module]:
        return layers.conv2d(n_in, n_out, size, bias=False, **how), nn.BatchNorm2d(n_out)

    first = normed(n_in, 3, stride=stride, padding=1)
    second = normed(n_out, 3, padding=1)
    projection = () if n_in == n_out else normed(n_in, 1, stride=stride)
    return Residual(Network(*first, nn.ReLU(), *second), Network(*projection))


def _run(branch: Network, x: Tensor, draws: Iterator[Tensor]) -> Tensor:
    """The branch on ``(S, B, C, H, W)``, its random layers under the next of the given draws."""
    for module in branch:
        if isinstance(module, StochasticLayer):
            x = module.forward_with(x, next(draws)) if module.is_random else module(x, "mean")
        else:
            x = apply_batched(module, x)
    return x
