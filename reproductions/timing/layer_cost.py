"""Compute of the layers of the course: a training step against one of plain layers.

``python -m reproductions bench`` measures it; there is no published table of it.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from torch import nn

from bdl_lessons.core.devices import cpu_threads
from bdl_lessons.models import initialise, mlp
from reproductions import markdown, methods
from reproductions.measure import step_times

BATCH_SIZE, P_DROP, N_THREADS = 100, 0.5, 2
WIDTHS = (784, 1200, 1200, 1200, 10)
PLAIN = "nn.Linear"
GROUPS = {
    "without structure": methods.tagged("independent"),
    "structured": methods.tagged("structured"),
}


def measure(
    layers: Mapping[str, methods.Method], widths: Sequence[int] = WIDTHS, n_repeats: int = 40
) -> dict[str, dict[str, float]]:
    """Take steps with networks of these layers, and plain ones, in turn.

    Returns:
        for each network the columns of :func:`~reproductions.measure.step_times`, and
        ``parameters``, the number that Adam moves. ``nn.Linear again`` is a second plain network:
        how far its ratio is from 1 is what the measurement can tell apart.
    """
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(BATCH_SIZE, widths[0], generator=generator)
    y = torch.randint(widths[-1], (BATCH_SIZE,), generator=generator)
    networks: dict[str, nn.Module] = {
        PLAIN: _plain(widths),
        f"{PLAIN} again": _plain(widths),
        "nn.Dropout": _plain(widths, nn.Dropout(P_DROP)),
        **{n: initialise(mlp(widths, method.layers()), generator) for n, method in layers.items()},
    }
    with cpu_threads(N_THREADS):
        rows = step_times(networks, x, y, generator, n_repeats)
    for name, network in networks.items():
        rows[name]["parameters"] = sum(p.numel() for p in network.parameters() if p.requires_grad)
    return rows


def table() -> str:
    """Both groups, measured now."""
    return "\n\n".join(_of_group(name, measure(layers)) for name, layers in GROUPS.items())


def _of_group(group: str, measured: Mapping[str, Mapping[str, float]]) -> str:
    columns = {
        "network": "{name}",
        "ms": "{ms:.1f}",
        "ratio to plain layers": "{ratio:.2f} ({low:.2f} to {high:.2f})",
        "parameters": "{parameters:,.0f}",
    }
    rows = [{"name": name, **row} for name, row in measured.items()]
    return (
        f"A training step of {'-'.join(map(str, WIDTHS))}, batch {BATCH_SIZE}, fused Adam, "
        f"{N_THREADS} threads, layers {group}. All networks take turns; the median over repeats of "
        "the ratio to the plain network in the same repeat, with quartiles. `nn.Linear again` "
        "tells what the measurement can tell apart. The noise acts on the input of every layer, "
        f"the pixels too.\n\n{markdown.table_of(rows, columns)}"
    )


def _plain(widths: Sequence[int], dropout: nn.Module | None = None) -> nn.Sequential:
    """A network as a reader would write it, with ``dropout`` before each linear layer."""
    modules: list[nn.Module] = []
    for n_in, n_out in pairwise(widths):
        modules += [dropout] if dropout else []
        modules += [nn.Linear(n_in, n_out), nn.ReLU()]
    return nn.Sequential(*modules[:-1])
