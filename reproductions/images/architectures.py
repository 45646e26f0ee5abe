"""LeNet-5 and AlexNet from a layer factory, as the tables on images use them."""

from torch import nn

from bdl_lessons.models import Network
from bdl_lessons.models.networks import Layers, one_each


def lenet5_classic(
    layers: Layers, n_classes: int = 10, in_channels: int = 1, size: int = 28
) -> Network:
    """LeNet-5 with the widths of LeCun et al. (1998): ``(B, C, size, size)`` to logits.

    conv 6 (5x5), ReLU, pool 2, conv 16 (5x5), ReLU, pool 2, then linear 120, 84, ``n_classes`` with
    ReLU between. As it is used today: max pooling, every channel connected to every other, softmax.
    The original was made for 32 x 32 pixels; 28 x 28 are padded to that.
    """
    conv1, conv2, dense1, dense2, dense3 = one_each(layers, 5)
    return Network(
        *(conv1.conv2d(in_channels, 6, 5, padding=(32 - size) // 2), nn.ReLU(), nn.MaxPool2d(2)),
        *(conv2.conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(dense1.linear(16 * 5 * 5, 120), nn.ReLU()),
        *(dense2.linear(120, 84), nn.ReLU()),
        dense3.linear(84, n_classes),
    )


def alexnet(layers: Layers, n_classes: int = 10, size: int = 32) -> Network:
    """AlexNet's five convolutions for small images: ``(B, 3, size, size)`` to logits.

    The version that is common on CIFAR: conv 64 (11x11, stride 4), 192 (5x5), 384, 256, 256 (3x3),
    pool 2 after the first, second and last, ReLU after each, one linear layer. 2.47 million
    parameters for 32 x 32 pixels and 10 classes; 29 x 29 pixels or more.
    """
    conv1, conv2, conv3, conv4, conv5, dense = one_each(layers, 6)
    side = ((size - 1) // 4 + 1) // 8
    return Network(
        *(conv1.conv2d(3, 64, 11, stride=4, padding=5), nn.ReLU(), nn.MaxPool2d(2)),
        *(conv2.conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(conv3.conv2d(192, 384, 3, padding=1), nn.ReLU()),
        *(conv4.conv2d(384, 256, 3, padding=1), nn.ReLU()),
        *(conv5.conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        dense.linear(256 * side**2, n_classes),
    )
