"""The widget engine: sliders, one picture, one line of readout.

Every panel has a function ``build_figure(figure) -> update``. It draws what stands still on a
matplotlib ``Figure``, marks what moves with matplotlib's own ``animated=True``, and returns
``update(**params) -> str``, which moves those artists and returns the readout (HTML). The still
part is drawn once; a slider move redraws the moving artists alone, which keeps it under 50 ms. A
picture depends on the parameters and on nothing else: not on earlier moves, and not on new random
numbers (draw the noise in ``build_figure``, outside ``update``; the sliders only transform it).
"""

import asyncio
import base64
import html
import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import PIL.Image
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bdl_lessons.core.plot_style import new_figure, style

Update = Callable[..., str]
FigureBuilder = Callable[[Figure], Update]

COALESCE_S = 0.008  # events that arrive within this time share one redraw; the last one wins

_STATES = """
<style>
.bdl-panel-live::after { padding: 4px 8px; order: -1; }
.bdl-panel-live.jupyter-widgets-disconnected::before,
.bdl-panel-live .jupyter-widgets-disconnected::before { display: none; }
.bdl-panel-live:has(.jupyter-widgets-disconnected)::after,
.jp-NotebookPanel:has(.jp-Notebook-ExecutionIndicator[data-status="unknown"]) .bdl-panel-live::after
{ content: "The kernel was stopped or restarted, so the sliders do nothing. Run this cell again; "
    "before you run others, choose Run → Run All Above Selected Cell."; color: #b00020; }
.jp-NotebookPanel:has(.jp-Notebook-ExecutionIndicator[data-status="busy"])
  .bdl-panel-live:not(:has(.jupyter-widgets-disconnected))::after {
  content: "The kernel is busy; the panel follows when it is done."; color: #555;
  opacity: 0; animation: bdl-late 0s 1s forwards; }
@keyframes bdl-late { to { opacity: 1; } }
</style>
"""
"""What a panel says when the kernel is gone or busy. The page knows, and the kernel cannot say.

It stands above the sliders, in place of the broken links that widgets show without a kernel.
"""

_PICTURE_HEIGHT = "max(300px, 100vh - 400px)"
"""On a screen of 720 lines the last lines of the question stay in view with sliders and picture."""


@dataclass(frozen=True)
class Slider:
    """A parameter on a grid of values, moved by mouse or arrow keys.

    Attributes:
        name: the keyword that ``update`` receives.
        label: what the reader sees: the symbol, its meaning, its unit.
        values: the grid, in order.
        value: where it starts; one of ``values``.
        show: turns a value into its text.
        web: the values that a page without a kernel offers; empty means all of them.
    """

    name: str
    label: str
    values: tuple
    value: Any
    show: Callable[[Any], str] = "{:g}".format
    web: tuple = ()

    _kind, _width = "SelectionSlider", "420px"

    def widget(self):
        import ipywidgets

        return getattr(ipywidgets, self._kind)(
            options=[(self.show(value), value) for value in self.values],
            value=self.value,
            description=self.label,
            style={"description_width": "max-content"},
            layout=ipywidgets.Layout(width=self._width),
        )


@dataclass(frozen=True)
class Choice(Slider):
    """A parameter with a few named values, picked from a list."""

    show: Callable[[Any], str] = str
    _kind, _width = "Dropdown", "max-content"


@dataclass(frozen=True)
class Picture:
    """What a panel shows for one setting: PNG bytes and the readout under it (HTML)."""

    png: bytes
    readout: str


class Panel:
    """Sliders over a figure, live in a kernel and a plain picture everywhere else.

    Displayed as one bundle: the live widget, a PNG of the starting state and a fixed text, so that
    a page without a kernel shows the picture.

    Args:
        build_figure: see the module's docstring; the panel's name is that of its module.
        controls: two or three sliders or choices.
        size: width and height of the picture in inches (100 pixels each).

    Raises:
        ValueError: if there is no control, a name is used twice, or a control starts off its grid.
    """

    def __init__(
        self, build_figure: FigureBuilder, *controls: Slider, size: tuple[float, float]
    ) -> None:
        self.name = build_figure.__module__.rpartition(".")[2].replace("_", "-")
        self.build_figure, self.size = build_figure, size
        names = [control.name for control in controls]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"panel {self.name!r}: needs different controls, got {names}")
        self.controls = {control.name: control for control in controls}
        self.error: Exception | None = None
        self._pictures: dict[tuple, Picture] = {}
        self._pending: asyncio.TimerHandle | None = None
        self._quiet = False
        self.start = self._checked({control.name: control.value for control in controls})

    def render(self, **params: Any) -> Picture:
        """The picture at ``params``; parameters left out keep their starting value.

        Raises ValueError for an unknown parameter, or a value that is not on its grid.
        """
        params = self._checked({**self.start, **params})
        key = tuple(params.values())
        if key not in self._pictures:
            self._pictures[key] = self.stage.draw(params)
        return self._pictures[key]

    def set(self, **params: Any) -> None:
        """Move the sliders from code, as a lecture script or a test does. Errors are raised."""
        params = self._checked(params)
        self._quiet = True
        try:
            for name, value in params.items():
                self._inputs[name].value = value
        finally:
            self._quiet = False
        self._refresh()
        if self.error is not None:
            raise self.error

    def clear_cache(self) -> None:
        """Drop the pictures drawn so far; the next move draws again."""
        self._pictures.clear()

    def reset(self) -> None:
        """Put every control back to where it started."""
        self.set(**self.start)

    @property
    def alt(self) -> str:
        """What one sees in the picture: the docstring of the function that builds the figure."""
        return " ".join((self.build_figure.__doc__ or f"The panel {self.name}.").split())

    @property
    def values(self) -> dict[str, Any]:
        """The current setting of the controls."""
        return {name: widget.value for name, widget in self._inputs.items()}

    @cached_property
    def widget(self):
        """The live view: controls, picture, readout."""
        from ipywidgets import HTML, Button, HBox, Layout, VBox

        narrow = Layout(width="72px")
        reset = Button(description="Reset", tooltip="Back to the start", layout=narrow)
        reset.on_click(lambda _: self.reset())
        for control in self._inputs.values():
            control.observe(self._schedule, names="value")
        self._refresh()
        wrapped = Layout(flex_flow="row wrap", padding="0 0 0 8px")
        row = HBox([*self._inputs.values(), reset], layout=wrapped)
        states = HTML(_STATES, layout=Layout(display="none"))  # a style works unseen
        view = VBox([row, self._image, self._readout, states])
        view.add_class("bdl-panel-live")
        return view

    @cached_property
    def _inputs(self) -> dict[str, Any]:
        return {name: control.widget() for name, control in self.controls.items()}

    @cached_property
    def _image(self):
        from ipywidgets import Image, Layout

        layout = Layout(
            width="auto",
            max_width=f"min(100%, {100 * self.size[0]:.0f}px)",
            max_height=_PICTURE_HEIGHT,
            object_fit="contain",
            align_self="flex-start",
        )
        return Image(format="png", layout=layout)

    @cached_property
    def _readout(self):
        from ipywidgets import HTML

        return HTML()

    @cached_property
    def stage(self) -> "Stage":
        """The figure on its canvas, built when the first picture is drawn."""
        return Stage(self.build_figure, self.size)

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict[str, Any]:
        setting = ", ".join(f"{n}={c.show(self.start[n])}" for n, c in self.controls.items())
        return self.widget._repr_mimebundle_() | {
            "image/png": base64.b64encode(self.render().png).decode(),
            "text/plain": f"<panel {self.name}: {setting}; run this cell for the sliders>",
        }

    def _schedule(self, _change: Any) -> None:
        if self._quiet or self._pending is not None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._refresh()
        else:
            self._pending = loop.call_later(COALESCE_S, self._refresh)

    def _refresh(self) -> None:
        self._pending, self.error = None, None
        try:
            picture = self.render(**self.values)
        except Exception as error:
            self.error = error
            text = html.escape(f"{type(error).__name__}: {error}")
            self._readout.value = f'<span role="alert" style="color:#B00020">{text}</span>'
        else:
            self._image.value = picture.png
            self._readout.value = picture.readout

    def _checked(self, params: dict[str, Any]) -> dict[str, Any]:
        for name, value in params.items():
            if name not in self.controls:
                known = ", ".join(self.controls)
                raise ValueError(f"panel {self.name!r} has no parameter {name!r}; it has {known}")
            if value not in self.controls[name].values:
                grid = ", ".join(map(repr, self.controls[name].values))
                raise ValueError(f"panel {self.name!r}: {name}={value!r} is not one of {grid}")
        return params


def moving_artists(figure: Figure) -> list[Artist]:
    """The animated artists of a figure in the order in which they are drawn."""
    return [
        artist
        for parent in (figure, *figure.axes)
        for artist in sorted(parent.get_children(), key=lambda child: child.get_zorder())
        if artist.get_animated()
    ]


class Stage:
    """A figure on its canvas: the still part drawn once, the animated artists at every draw."""

    def __init__(self, build_figure: FigureBuilder, size: tuple[float, float]) -> None:
        with style():
            self.figure = new_figure(*size)
            self.update = build_figure(self.figure)
            self.canvas = FigureCanvasAgg(self.figure)
            self.canvas.draw()
        self.still = self.canvas.copy_from_bbox(self.figure.bbox)

    def draw(self, params: dict[str, Any]) -> Picture:
        with style():
            readout = self.update(**params)
            self.canvas.restore_region(self.still)
            for artist in moving_artists(self.figure):
                artist.draw(self.canvas.get_renderer())
        return Picture(_encode(np.asarray(self.canvas.buffer_rgba())[..., :3]), readout)


def _encode(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    PIL.Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()
