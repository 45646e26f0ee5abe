"""Run the code of a lesson again, changed: with other seeds, or with its method broken.

A claim must hold for seeds that did not make it, and a broken method must turn a check red.
"""

from __future__ import annotations

import ast
import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from nbformat import NotebookNode

from bdl_lessons import core
from bdl_lessons.core.files import NOTEBOOKS
from tools import notebook

SEEDED = {"manual_seed", "seeded", "default_rng"}
"""Calls whose first argument is a seed; so is an argument with the name ``seed``."""
CHECKS = {"check", "check_between"}
"""Calls that state a claim of the lesson."""


@dataclass(frozen=True)
class Measured:
    """What one check measured: the cell, its claim, the mean, and why it failed, if it did."""

    cell: str
    claim: str
    value: float
    failure: str = ""


class Noticed(Exception):
    """A check failed, or a cell stopped with an error."""


def with_seeds(path: Path, offset: int) -> list[Measured]:
    """Every check of a lesson, with ``offset`` added to all seeds that its cells write.

    A failed check is recorded and the lesson goes on. Figures are not drawn to files.

    Raises:
        Noticed: if a cell stops with another error.
    """
    lesson = notebook.read(path)
    measured: list[Measured] = []

    def record(cell: str, claim: str, value: Any, failure: str) -> None:
        mean = torch.as_tensor(value).detach().double().mean().item()
        measured.append(Measured(cell, claim, mean, failure))

    with _kernel(record) as run:
        for cell in notebook.code_of(lesson):
            source = shifted(cell.source, offset)
            run(cell.id, source)
    return measured


def shifted(source: str, offset: int) -> str:
    """The code with ``offset`` added to every seed in it."""
    tree = ast.parse(source)

    def with_offset(seed: ast.expr) -> ast.expr:
        return ast.BinOp(left=seed, op=ast.Add(), right=ast.Constant(offset))

    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "seed":
            node.value = with_offset(node.value)
        elif isinstance(node, ast.Call) and node.args:
            _, _, name = ast.unparse(node.func).rpartition(".")
            if name in SEEDED:
                node.args[0] = with_offset(node.args[0])
    return ast.unparse(ast.fix_missing_locations(tree))


def planted(path: Path) -> Iterator[tuple[str, str, bool]]:
    """Each break of a lesson's method cells: its cell, what was changed, whether it was noticed.

    A break runs in a process of its own, forked where its cell begins, until a check fails or the
    lesson ends; what takes longer than 300 seconds is noticed.
    """
    cells = notebook.code_of(notebook.read(path))
    with _kernel(record=None) as run:
        for index, cell in enumerate(cells):
            following = [(other.id, other.source) for other in cells[index + 1 :]]
            for change, broken in breaks(cell):
                passes = _passes(run, [(cell.id, broken), *following])
                yield cell.id, change, not passes
            run(cell.id, cell.source)


def breaks(cell: NotebookNode) -> Iterator[tuple[str, str]]:
    """Typical breaks of a cell tagged ``method``: each in words, and the code that has it.

    A factor or a term is gone, a sign turned, a mean taken for a sum, a root or a square left out,
    noise shared by a batch or no longer shared, a KL divided by the batch in place of the data
    set, gradients that add up, a mode or a bound forgotten. What stands inside a check is left
    alone.
    """
    if "method" not in notebook.tags_of(cell):
        return
    tree = ast.parse(cell.source)
    in_checks: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in CHECKS:
            in_checks.update(ast.walk(node))
    for node in ast.walk(tree):
        if node in in_checks:
            continue
        for new in [*_broken(node), *_shared(node)]:
            change = f"line {node.lineno}: {ast.unparse(node)} → {ast.unparse(new)}"
            yield change, ast.unparse(replaced(tree, {id(node): new}))


def replaced(tree: Any, new: dict[int, ast.AST]) -> Any:
    """A copy of a syntax tree with the nodes of these ids replaced."""
    if id(tree) in new:
        return ast.copy_location(new[id(tree)], tree)
    if isinstance(tree, list):
        return [replaced(part, new) for part in tree]
    if isinstance(tree, ast.AST):
        fields = {name: replaced(part, new) for name, part in ast.iter_fields(tree)}
        return ast.copy_location(type(tree)(**fields), tree)
    return tree


def _broken(node: ast.AST) -> Iterator[ast.expr]:
    """What may stand in the place of an operation, of a call, or of a statement."""
    match node:
        case ast.BinOp(left, ast.Div(), ast.Name("n_train")):
            batch_size = ast.parse("len(x)", mode="eval").body
            yield left
            yield ast.BinOp(left, ast.Div(), batch_size)
        case ast.BinOp(left, ast.Mult() | ast.Div() | ast.Pow(), _):
            yield left
        case ast.BinOp(left, ast.Add(), right):
            yield ast.BinOp(left, ast.Sub(), right)
        case ast.BinOp(left, ast.Sub(), right):
            yield ast.BinOp(left, ast.Add(), right)
        case ast.UnaryOp(ast.USub(), operand) if not isinstance(operand, ast.Constant):
            yield operand
        case ast.Call(ast.Attribute(value, ("sum" | "mean") as name, context), args, keywords):
            other = "mean" if name == "sum" else "sum"
            yield ast.Call(ast.Attribute(value, other, context), args, keywords)
        case ast.Call(ast.Attribute(value, "sqrt" | "square" | "log" | "exp"), [], []):
            yield value
        case ast.Expr(ast.Call(ast.Attribute(_, "zero_grad" | "train" | "clamp_"))):
            yield ast.Expr(ast.Constant(None))


def _shared(node: ast.AST) -> Iterator[ast.expr]:
    """A draw for all examples of a batch where each had its own, and the reverse."""

    def of_one(part: ast.expr) -> ast.expr:
        return ast.Subscript(part, ast.Slice(upper=ast.Constant(1)), ast.Load())

    match node:
        case ast.Call(ast.Attribute(_, "randn_like" | "rand_like"), [like], keywords):
            yield ast.Call(node.func, [of_one(like)], keywords)
        case ast.Call(_, [ast.Attribute(value, "shape", context), *more], keywords):
            first = ast.Attribute(of_one(value), "shape", context)
            yield ast.Call(node.func, [first, *more], keywords)
        case ast.Call(_, [ast.Call(ast.Name("len")), *more], keywords) if more:
            yield ast.Call(node.func, [ast.Constant(1), *more], keywords)
        case ast.Call(ast.Attribute(_, "ones_like"), [ast.Subscript(value, ast.Slice())], keywords):
            yield ast.Call(node.func, [value], keywords)


def _passes(run: Callable[[str, str], None], cells: list[tuple[str, str]]) -> bool:
    """Whether the cells run to their end in a forked process."""
    child = os.fork()
    if child == 0:
        signal.alarm(300)
        with contextlib.suppress(BaseException):
            for cell_id, source in cells:
                run(cell_id, source)
            os._exit(0)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    return status == 0


@contextlib.contextmanager
def _kernel(
    record: Callable[[str, str, Any, str], None] | None,
) -> Iterator[Callable[[str, str], None]]:
    """A function that runs a cell, given its id and code, one after the other in one namespace.

    With ``record``, every check is handed to it, and one that fails does not stop the cell.
    """
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    namespace = {"__name__": "__main__", "display": str}  # tables are made and not shown
    current_cell = ""
    dtype = torch.get_default_dtype()

    def recorded(function: Callable) -> Callable:
        def call(claim: str, value: Any, *args: Any, **kwargs: Any) -> None:
            failure = ""
            try:
                function(claim, value, *args, **kwargs)
            except core.CheckFailed as error:
                failure = str(error)
            record(current_cell, claim, value, failure)

        return call

    def run(cell_id: str, source: str) -> None:
        nonlocal current_cell
        current_cell = cell_id
        try:
            with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
                exec(compile(source, cell_id, "exec"), namespace)
        except Exception as error:
            raise Noticed(f"{cell_id}: {type(error).__name__}: {error}") from error
        pyplot.close("all")

    try:
        with contextlib.chdir(NOTEBOOKS), contextlib.ExitStack() as patched:
            if record:
                for name in CHECKS:
                    with_record = recorded(getattr(core, name))
                    patched.enter_context(mock.patch.object(core, name, with_record))
            yield run
    finally:
        torch.set_default_dtype(dtype)  # a lesson may set it, and the next one begins as new
