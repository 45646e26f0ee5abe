"""A lesson run again with other seeds, and with its method broken."""

import ast

import nbformat
import pytest
import torch

from tools import replay

new = nbformat.v4
IMPORTS = "import torch\nfrom bdl_lessons.core import check, check_between, seeded"


def lesson(path, *sources):
    cells = [new.new_code_cell(source) for source in (IMPORTS, *sources)]
    cells[1].metadata["tags"] = ["method"]
    for index, cell in enumerate(cells):
        cell.id = f"01-{index}"
    path.write_text(nbformat.writes(new.new_notebook(cells=cells)))
    return path


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("torch.manual_seed(seed)", "torch.manual_seed(seed + 10)"),
        ("split(x, seed=0)", "split(x, seed=0 + 10)"),
        ("range(3)", "range(3)"),
    ],
)
def test_every_seed_is_shifted(source, expected):
    assert replay.shifted(source, 10) == expected


def test_a_claim_that_holds_for_one_seed_alone_is_recorded_and_the_lesson_goes_on(tmp_path):
    path = lesson(
        tmp_path / "01_a.ipynb",
        "x = torch.rand(1, generator=seeded(0)).item()\ncheck('lucky', x, 0.4963, 1e-3)",
        "torch.set_default_dtype(torch.float64)\n"
        "check_between('sound', torch.tensor([0.5, 1.5]), 0, 2)",
    )
    lucky, sound = replay.with_seeds(path, 0)
    assert torch.get_default_dtype() == torch.float32, "the next lesson begins as a new one"
    assert (lucky.cell, lucky.claim, lucky.failure) == ("01-1", "lucky", "")
    assert (sound.value, sound.failure) == (1.0, "")
    lucky, sound = replay.with_seeds(path, 7)
    assert "lucky: measured" in lucky.failure
    assert sound.failure == ""
    with pytest.raises(replay.Noticed, match="01-1: ZeroDivisionError"):
        replay.with_seeds(lesson(tmp_path / "01_a.ipynb", "1 / 0"), 0)


@pytest.mark.parametrize(
    ("code", "broken"),
    [
        ("a * b", ["a"]),
        ("a - b", ["a + b"]),
        ("-a", ["a"]),
        ("x.sum(0)", ["x.mean(0)"]),
        ("x.sqrt()", ["x"]),
        ("torch.randn_like(h)", ["torch.randn_like(h[:1])"]),
        ("torch.rand(h.shape, generator=g)", ["torch.rand(h[:1].shape, generator=g)"]),
        ("torch.randn(len(x), K)", ["torch.randn(1, K)"]),
        ("torch.ones_like(h[:1])", ["torch.ones_like(h)"]),
        ("kl / n_train", ["kl", "kl / len(x)"]),
        ("optimizer.zero_grad()", ["None"]),
        ("check('a', b * c, 1, 0)", []),
    ],
)
def test_typical_breaks(code, broken):
    cell = new.new_code_cell(code, metadata={"tags": ["method"]})
    assert [ast.unparse(ast.parse(source)) for _, source in replay.breaks(cell)] == broken
    assert [*replay.breaks(new.new_code_cell(code))] == []


@pytest.mark.parametrize(
    ("method", "claim", "seen"),
    [
        ("2 * x + 0 * x", "check('twice', f(torch.ones(2)).mean(), 2, 0)", [False] * 3),
        ("x / 2", "check('half', f(torch.ones(2)).mean(), 0.5, 0)", [True]),
    ],
)
def test_a_break_is_seen_by_a_check_or_not(tmp_path, method, claim, seen):
    path = lesson(tmp_path / "01_a.ipynb", f"def f(x):\n    return {method}", claim)
    assert [noticed for _, _, noticed in replay.planted(path)] == seen
