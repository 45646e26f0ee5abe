"""What structured dropout costs: one training step against the same network of plain layers."""

from __future__ import annotations

from bdl_lessons.layers import StructuredDropout, VariationalDropout
from bdl_lessons.models import LayerFactory
from bdl_lessons.tools import bench_layers

LAYERS: dict[str, LayerFactory] = {
    "VD, alpha per unit": VariationalDropout("A", "unit"),
    "VSD, T = 0": StructuredDropout(0),
    "VSD, T = 1": StructuredDropout(1),
    "VSD, T = 2": StructuredDropout(2),
    "VSD, T = 5": StructuredDropout(5),
    "VSD, T = 2, fc_lowrank, rank 8": StructuredDropout(2, "fc_lowrank"),
    "VSD, T = 2, fc": StructuredDropout(2, "fc"),
}


def run() -> list[dict]:
    """Rows of :func:`bench_layers.compare` for free vectors, chains of maps, and without any.

    Nguyen et al. report the time of an epoch over that of a plain network for T = 1 and T = 2 as
    1.25 and 1.35 on LeNet5, 1.32 and 1.49 on AlexNet, 1.86 and 2.90 on ResNet18.
    """
    return bench_layers.compare(LAYERS)
