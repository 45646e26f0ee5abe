"""LeNet-5, Caffe's and today's, AlexNet and ResNet18 under any distribution of their weights."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bdl_lessons.models import Method, Network, Sampling, wrap


def lenet5(method: Method | Sequence[Method]) -> Network:
    """Caffe's LeNet as Gal & Ghahramani use it: ``(B, 1, 28, 28) -> (B, 10)`` logits.

    There is no nonlinearity after the convolutions but the pooling. Published: dropout 0.5 before
    the last layer only. ``method`` is one for all four layers or a list of four, else ValueError.

    >>> from bdl_lessons.models import Deterministic
    >>> lenet5(Deterministic)(torch.ones(2, 1, 28, 28), "mean").shape
    torch.Size([2, 10])
    """
    plain = nn.Sequential(
        nn.Conv2d(1, 20, kernel_size=5),
        nn.MaxPool2d(2),
        nn.Conv2d(20, 50, kernel_size=5),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(50 * 4 * 4, 500),
        nn.ReLU(),
        nn.Linear(500, 10),
    )
    return wrap(plain, method)


def lenet5_classic(
    method: Method | Sequence[Method], n_classes: int = 10, in_channels: int = 1, size: int = 28
) -> Network:
    """LeNet-5 with the widths of LeCun et al. (1998), as used today: max pooling, all channels.

    ``(B, C, size, size)`` to logits; made for 32 x 32 pixels, to which 28 x 28 are padded.
    """
    plain = nn.Sequential(
        nn.Conv2d(in_channels, 6, kernel_size=5, padding=(32 - size) // 2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, kernel_size=5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 5 * 5, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, n_classes),
    )
    return wrap(plain, method)


def alexnet(method: Method | Sequence[Method], n_classes: int = 10, size: int = 32) -> Network:
    """AlexNet's five convolutions for small images: ``(B, 3, size, size)`` to logits.

    The version that is common on CIFAR, with one linear layer, from 29 x 29 pixels on.
    """
    side = ((size - 1) // 4 + 1) // 8
    plain = nn.Sequential(
        nn.Conv2d(3, 64, kernel_size=11, stride=4, padding=5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(64, 192, kernel_size=5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(192, 384, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.Conv2d(384, 256, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.Conv2d(256, 256, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(256 * side**2, n_classes),
    )
    return wrap(plain, method)


class Residual(nn.Module):
    """``relu(main(x) + shortcut(x))``: each layer of both branches has a draw of its own."""

    def __init__(self, main: Network, shortcut: Network) -> None:
        super().__init__()
        self.main = main
        self.shortcut = shortcut

    def forward(
        self, x: Tensor, sampling: Sampling | None = None, generator: torch.Generator | None = None
    ) -> Tensor:
        main = self.main(x, sampling, generator)
        shortcut = self.shortcut(x, sampling, generator)
        return (main + shortcut).relu()

    def kl(self) -> Tensor:
        return self.main.kl() + self.shortcut.kl()


def resnet18(method: Method, n_classes: int = 10, first: Method | None = None) -> Network:
    """ResNet18 (He et al., CVPR 2016) with the stem made for ImageNet: ``(B, 3, H, W)`` to logits.

    The first block sees 32 x 32 pixels as 8 x 8. As in the original there are no biases before a
    batch norm, whose statistics are those of the batch after ``train()``, else the collected ones.
    ``first`` makes the first convolution, which sees the pixels; ``None``: as the others.
    """
    make_stem = first or method
    stem = make_stem(nn.Conv2d(3, 64, kernel_size=7, stride=2, padding=3, bias=False))
    blocks = []
    for n_in, n_out in ((64, 64), (64, 128), (128, 256), (256, 512)):
        blocks.append(_block(method, n_in, n_out, stride=1 if n_in == n_out else 2))
        blocks.append(_block(method, n_out, n_out, stride=1))
    return Network(
        stem,
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        method(nn.Linear(512, n_classes)),
    )


def _block(method: Method, n_in: int, n_out: int, stride: int) -> Residual:
    main = nn.Sequential(
        nn.Conv2d(n_in, n_out, kernel_size=3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(n_out),
        nn.ReLU(),
        nn.Conv2d(n_out, n_out, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(n_out),
    )
    if n_in == n_out:
        return Residual(wrap(main, method), Network())
    projection = nn.Sequential(
        nn.Conv2d(n_in, n_out, kernel_size=1, stride=stride, bias=False), nn.BatchNorm2d(n_out)
    )
    return Residual(wrap(main, method), wrap(projection, method))
