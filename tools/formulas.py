"""Formulas as MathML, which every browser shows without a script."""

from __future__ import annotations

import re

from latex2mathml.converter import convert


def mathml(tex: str, display: str) -> str:
    """A formula in MathML; ``display`` is ``"inline"`` or ``"block"``."""
    return convert(re.sub(r"\\[lr]Vert", r"\\Vert", tex), display=display)
