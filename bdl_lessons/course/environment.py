"""What this machine has: versions, device, data. The first cell that a reader runs."""

import platform
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

import torch

from bdl_lessons.core import device
from bdl_lessons.datasets import co2, diabetes, digits
from bdl_lessons.panels import dropout_rate

PACKAGES = ("torch", "numpy", "matplotlib", "ipywidgets", "gpytorch", "jupyterlab")
SMOOTH_S = 0.1


def report() -> str:
    """What a lesson may need, in a few lines, with the remedy where something is missing.

    Never raises for what a machine lacks: no GPU and no test tools are normal.
    """
    return "\n".join([*_software(), *_speed(), *_data()])


def _software() -> Iterator[str]:
    installed = [f"Python {platform.python_version()}"]
    for name in PACKAGES:
        try:
            installed.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            yield f"missing  {name}: run `make lab` once, or pip install -r requirements.lock"
    yield f"ok       {', '.join(installed)}"


def _speed() -> Iterator[str]:
    try:
        yield f"ok       device {device()}, {torch.get_num_threads()} CPU threads"
    except ValueError as error:
        yield f"missing  {error}"
    if _slider_move_s() < SMOOTH_S:
        yield f"ok       a slider moves its picture in under {1e3 * SMOOTH_S:.0f} ms"
    else:
        yield f"slow     a slider needs over {1e3 * SMOOTH_S:.0f} ms: is another program busy?"


def _slider_move_s() -> float:
    """The quickest of a few moves, so that a moment's load does not count."""
    panel = dropout_rate.panel()
    panel.render()
    seconds = []
    for p_drop in (0.1, 0.3, 0.5, 0.7):
        panel.clear_cache()
        began = time.perf_counter()
        panel.render(p_drop=p_drop)
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def _data() -> Iterator[str]:
    months = len(co2().ppm)
    images = digits()
    patients = len(diabetes().y)
    n_images = len(images.y_train) + len(images.y_test)
    yield f"ok       data: {months} months of CO2, {n_images} digits, {patients} patients"
