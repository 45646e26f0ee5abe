"""Wrong answers made from the solution of an exercise by small changes of its syntax tree.

A mutant is the solution with one change: another operator, a factor left out, a call dropped,
another axis, one argument in place of another, noise that rows or columns share. Whether it is
wrong is decided on the arguments that grading hands to an answer and on copies of them moved a
little, so that no special value in a check (p_drop = ½, equal inputs) hides a difference.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import inspect
import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from bdl_lessons.exercises.form import numbers
from bdl_lessons.exercises.grader import Answer, Exercise, grade
from tools.replay import replaced

OPERATORS = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div, ast.Add),
    ast.Div: (ast.Mult,),
    ast.Pow: (ast.Mult,),
    ast.MatMult: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.Lt: (ast.Gt, ast.LtE),
    ast.Gt: (ast.Lt, ast.GtE),
    ast.LtE: (ast.GtE, ast.Lt),
    ast.GtE: (ast.LtE, ast.Gt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
}
CONSTANTS = {0: (1,), 1: (2,), 2: (1, 3), 0.5: (1,)}
RENAMED = {
    "sum": "mean",
    "mean": "sum",
    "max": "min",
    "min": "max",
    "exp": "log",
    "log": "exp",
    "sin": "cos",
    "cos": "sin",
    "softmax": "log_softmax",
    "var": "std",
    "std": "var",
}
REDUCTIONS = {"sum", "mean", "prod", "var", "std", "logsumexp", "softmax", "log_softmax", "norm"}
DROPPED = {
    *RENAMED,
    *REDUCTIONS,
    "sqrt",
    "log1p",
    "abs",
    "square",
    "relu",
    "acos",
    "inv",
    "entr",
    "clamp",
    "clamp_min",
    "clamp_max",
    "diagonal",
    "softplus",
    "reciprocal",
    "sigmoid",
}
LIBRARIES = {"torch", "math", "np", "nn"}
N_REPLAYS = 1000
N_ALIKE = 200  # replays without a difference, after which there is none that N_REPLAYS would show


class Mutant(NamedTuple):
    """A changed solution, and the change: ``line 12: keep * p_drop → keep + p_drop``."""

    change: str
    answer: Answer


def survivors(exercise: Exercise) -> list[str]:
    """The changes of all mutants that are wrong and yet pass as solved.

    A mutant that takes more than 5 seconds, or 1 GiB, is stopped and counts as rejected.
    """
    inputs = _inputs(exercise)
    undiagnosed = dataclasses.replace(exercise, known_errors=())
    changes = []
    for mutant in itertools.chain(mutants(exercise.solution), near_misses(exercise)):
        with bounded_memory(1.0):
            solved = grade(undiagnosed, mutant.answer, seconds=5.0).solved
        if solved and _differs(exercise, mutant.answer, inputs):
            changes.append(mutant.change)
    return changes


def mutants(solution: Answer) -> Iterator[Mutant]:
    """Mutants of a function of a module, and of those functions of the module that it calls."""
    module = inspect.getmodule(solution)
    original = _tree(solution)
    for function in [solution, *_helpers(solution)]:
        for change, changed in _changed(_tree(function)):
            parts = [changed] if function is solution else [changed, original]
            namespace = {**vars(module), "_shared": _shared}
            code = ast.fix_missing_locations(ast.Module(parts, type_ignores=[]))
            exec(compile(code, f"<{change}>", "exec"), namespace)
            yield Mutant(change, namespace[solution.__name__])


def _helpers(solution: Answer) -> list[Answer]:
    """The functions of its module whose names the solution holds."""
    module = inspect.getmodule(solution)
    names = {node.id for node in ast.walk(_tree(solution)) if isinstance(node, ast.Name)}
    return [
        value
        for value in vars(module).values()
        if inspect.isfunction(value)
        and value.__name__ in names
        and inspect.getmodule(value) is module
        and value is not solution
    ]


def _tree(function: Answer) -> ast.FunctionDef:
    """The syntax tree of a function, with the line numbers of its file."""
    lines, first = inspect.getsourcelines(function)
    tree = ast.parse("".join(lines))
    return ast.increment_lineno(tree, first - 1).body[0]


def near_misses(exercise: Exercise) -> Iterator[Mutant]:
    """The solution with results one per cent off, for inputs of the shapes that the probe has.

    None of a prediction, which is compared with a measurement, nor of random results.
    """
    calls = _recorded(exercise.solution, exercise.probe)
    shapes = {_shapes(*call) for call in calls}

    def with_changed_results(change: Callable[[Any], Any]) -> Answer:
        def answer(*args: Any, **kwargs: Any) -> Any:
            result = exercise.solution(*args, **kwargs)
            return _fresh(result, change) if _shapes(args, kwargs) in shapes else result

        return answer

    def larger(value: Any) -> Any:
        return value * 1.01

    def further_from_mean(value: Any) -> Any:
        return value + 0.01 * (value - value.mean()) if torch.is_tensor(value) else value

    if exercise.kind == "predict" or any(_is_random(*call) for call in calls):
        return
    suffix = f"for inputs of shapes {sorted(shapes, key=str)}"
    yield Mutant(f"results × 1.01 {suffix}", with_changed_results(larger))
    yield Mutant(
        f"results 1 % further from their mean {suffix}", with_changed_results(further_from_mean)
    )


def _changed(function: ast.FunctionDef) -> Iterator[tuple[str, ast.AST]]:
    """Each change of the function in words, and the function with it."""
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    kinds = {
        argument.arg: ast.unparse(argument.annotation)
        for argument in arguments
        if argument.annotation
    }
    has_docstring = ast.get_docstring(function) is not None
    body = function.body[1:] if has_docstring else function.body
    nodes = [node for statement in body for node in ast.walk(statement)]
    parents = {id(part): node for node in nodes for part in ast.iter_child_nodes(node)}
    for node in nodes:
        is_large = isinstance(node, ast.stmt | ast.Call | ast.BinOp | ast.Compare)
        parent = parents.get(id(node), node)
        shown = node if is_large or isinstance(parent, ast.stmt) else parent
        for alternative in _alternatives(node, kinds):
            before = ast.unparse(shown)
            after = ast.unparse(replaced(shown, {id(node): alternative}))
            change = f"line {node.lineno}: {before} → {after}"
            yield change, replaced(function, {id(node): alternative})
    yield from _exchanges(function, nodes, kinds)


def _exchanges(
    function: ast.FunctionDef, nodes: list[ast.AST], kinds: dict[str, str]
) -> Iterator[tuple[str, ast.AST]]:
    """The function with two arguments of one kind exchanged wherever they stand."""
    names = [node for node in nodes if isinstance(node, ast.Name) and node.id in kinds]
    in_order = dict.fromkeys(node.id for node in names)
    for first, second in itertools.combinations(in_order, 2):
        if kinds[first] != kinds[second]:
            continue
        exchange = {first: second, second: first}
        new_names = {
            id(node): ast.Name(exchange[node.id], node.ctx) for node in names if node.id in exchange
        }
        yield f"{first} and {second} exchanged", replaced(function, new_names)


def _alternatives(node: ast.AST, kinds: dict[str, str]) -> Iterator[ast.AST]:
    """What may stand wrongly in place of ``node``; ``kinds`` are the types of the arguments."""
    match node:
        case ast.BinOp(left, operator, right):
            for other in OPERATORS.get(type(operator), ()):
                yield ast.BinOp(left, other(), right)
            yield left
            if isinstance(operator, ast.Add | ast.Mult):
                yield right
        case ast.AugAssign(target, operator, value):
            for other in OPERATORS.get(type(operator), ()):
                yield ast.AugAssign(target, other(), value)
        case ast.Compare(left, [operator], right):
            for other in OPERATORS.get(type(operator), ()):
                yield ast.Compare(left, [other()], right)
        case ast.UnaryOp(_, operand):
            yield operand
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value) | float(value)) if value == 0 or abs(value) > 1e-6:
            for other in CONSTANTS.get(value, (2 * value,)):
                yield ast.Constant(other)
        case ast.Name(name, ast.Load()) if name in kinds:
            for other in kinds:
                if other != name and kinds[other] == kinds[name]:
                    yield ast.Name(other, node.ctx)
            if kinds[name] == "int":
                yield _one_less(node)
        case ast.Attribute(value, "T" | "mT"):
            yield value
        case ast.Subscript(ast.Attribute(_, "shape")):
            yield _one_less(node)
        case ast.Return(ast.Tuple(parts)):
            yield ast.Return(ast.Tuple(parts[::-1], ast.Load()))
        case ast.List([_, _, *_] as parts):
            yield ast.List(parts[::-1], ast.Load())
        case ast.Call():
            yield from _other_calls(node, kinds)


def _other_calls(node: ast.Call, kinds: dict[str, str]) -> Iterator[ast.expr]:
    """Other calls than this one, of a method ``x.f(…)`` or of a function ``torch.f(x, …)``."""
    is_method = isinstance(node.func, ast.Attribute) and _root(node.func) not in LIBRARIES
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    positional = [node.func.value, *node.args] if is_method else node.args
    operand = positional[0] if positional else None
    rest = positional[1:]
    named = {keyword.arg: keyword.value for keyword in node.keywords}

    def call(function: ast.expr, rest: list[ast.expr], keywords: dict[str, ast.expr]) -> ast.Call:
        args = rest if is_method else [operand, *rest]
        return ast.Call(function, args, [ast.keyword(key, keywords[key]) for key in keywords])

    if operand is not None and name in DROPPED:
        yield operand
    if isinstance(node.func, ast.Attribute) and name in RENAMED:
        renamed = ast.Attribute(node.func.value, RENAMED[name], ast.Load())
        yield call(renamed, rest, named)
    if name in REDUCTIONS:
        axis = named.get("dim") or (rest[0] if rest else None)
        without_axis = {key: value for key, value in named.items() if key != "dim"}
        if axis:
            yield call(node.func, [], without_axis)
        for other in (0, 1, -1):
            if axis is None or str(other) != ast.unparse(axis):
                yield call(node.func, [], {**without_axis, "dim": ast.Constant(other)})
    if name in {"var", "std", "cov"}:
        is_biased = "correction" in named and ast.unparse(named["correction"]) == "0"
        without_correction = {key: value for key, value in named.items() if key != "correction"}
        correction = ast.Constant(1 if is_biased else 0)
        yield call(node.func, rest, {**without_correction, "correction": correction})
    if name in {"len", "numel"}:
        yield _one_less(node)
    names = [part.id for part in [*node.args, *named.values()] if isinstance(part, ast.Name)]
    if any("Generator" in kinds.get(name, "") for name in names):
        for axes in ("rows", "columns", "all"):
            yield ast.Call(ast.Name("_shared", ast.Load()), [node, ast.Constant(axes)], [])


def _root(node: ast.expr) -> str | None:
    """``torch`` of ``torch.special.entr``; nothing for an attribute of another expression."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _one_less(node: ast.expr) -> ast.expr:
    return ast.BinOp(node, ast.Sub(), ast.Constant(1))


def _shared(noise: Any, axes: str) -> Any:
    """Noise of the same shape that all rows, all columns or all entries have in common."""
    if not isinstance(noise, Tensor):
        return noise
    numbers_of_axes = range(noise.ndim)
    if axes == "rows":
        numbers_of_axes = numbers_of_axes[:1]
    if axes == "columns":
        numbers_of_axes = numbers_of_axes[-1:]
    for axis in numbers_of_axes:
        noise = noise.narrow(axis, 0, 1).expand(noise.shape)
    return noise


@dataclass(frozen=True)
class Input:
    """The arguments of one call, and what the reference solution gives for them."""

    solution: Answer
    args: tuple
    kwargs: dict
    right: Any

    @property
    def size(self) -> int:
        """How many numbers a call draws and returns, roughly."""
        n_draws = sum(value for value in self.args if isinstance(value, int))
        n_results = sum(part.numel() for part, _ in _parts(self.right, self.right))
        return n_draws + n_results

    @functools.cached_property
    def reference(self) -> Tensor:
        """The moments of the reference solution over all replays, drawn once for all mutants."""
        return self.moments(self.solution, range(N_REPLAYS))

    def moments(self, answer: Answer, seeds: range) -> Tensor:
        """The moments of ``answer``, a row for each seed."""
        return torch.stack([_moments(answer, self.args, self.kwargs, seed) for seed in seeds])


def _recorded(solution: Answer, use: Callable[[Answer], Any]) -> list[tuple[tuple, dict]]:
    """The arguments with which ``use`` calls an answer."""
    calls = []

    def recorder(*args: Any, **kwargs: Any) -> Any:
        calls.append(_fresh((args, kwargs)))
        return solution(*args, **kwargs)

    use(recorder)
    return calls


def _inputs(exercise: Exercise) -> list[Input]:
    """Arguments that grading uses, and near ones, each with the result of the reference."""
    calls = _recorded(exercise.solution, lambda answer: grade(exercise, answer))
    generator = Generator().manual_seed(1)
    inputs = []
    every = 1 + len(calls) // 25
    for call in calls[::every]:
        near_call = _fresh(call, lambda value: _moved(value, generator))
        for args, kwargs in (call, near_call):
            with contextlib.suppress(Exception):
                right = exercise.solution(*_fresh(args), **_fresh(kwargs))
                inputs.append(Input(exercise.solution, args, kwargs, right))
    return inputs


def _is_random(args: tuple, kwargs: dict) -> bool:
    return any(isinstance(value, Generator) for value in (*args, *kwargs.values()))


def _shapes(args: tuple, kwargs: dict) -> tuple:
    values = (*args, *kwargs.values())
    return tuple(tuple(value.shape) for value in values if isinstance(value, Tensor))


def _fresh(value: Any, change: Callable[[Any], Any] = lambda value: value) -> Any:
    """A copy in which nothing is shared, with the numbers in it changed."""
    match value:
        case Generator():
            generator = Generator()
            generator.set_state(value.get_state())
            return generator
        case dict():
            return {key: _fresh(part, change) for key, part in value.items()}
        case tuple() | list():
            return type(value)(_fresh(part, change) for part in value)
        case Tensor():
            return change(value.detach().clone())
    return change(value)


def _moved(value: Any, generator: Generator) -> Any:
    """Near numbers of the same kind: masks stay masks, probabilities and variances such.

    Symmetric matrices stay positive definite, probabilities keep their sum, directions their
    length, rotations do not move; integers do not either.
    """
    if isinstance(value, float):
        return _moved(torch.tensor([value], dtype=torch.float64), generator).item()
    if not isinstance(value, Tensor) or not value.is_floating_point() or not value.numel():
        return value
    factor = torch.empty_like(value).uniform_(0.85, 1.15, generator=generator)
    if value.ndim == 2 and value.shape == value.mT.shape:
        is_symmetric = torch.allclose(value, value.mT)
        identity = torch.eye(len(value), dtype=value.dtype)
        if is_symmetric:
            return factor[0] * value * factor[0][:, None]
        if torch.allclose(value @ value.mT, identity):
            return value
    may_be_probabilities = value.min() >= 0 and value.max() <= 1 and value.min() != 1
    if not may_be_probabilities:
        moved = value * factor
        is_direction = value.ndim == 1 and abs(value.norm() - 1) < 1e-6
        return moved / moved.norm() if is_direction else moved
    moved = value**factor
    if _is_one(value.sum()):
        return moved / moved.sum()
    if _is_one(value.sum(-1)):
        return moved / moved.sum(-1, keepdim=True)
    return moved


def _is_one(value: Tensor) -> bool:
    return torch.allclose(value, torch.ones_like(value))


def _differs(exercise: Exercise, answer: Answer, inputs: list[Input]) -> bool:
    """Whether the answer gives other numbers, or numbers of another distribution if they vary."""
    if any(_is_random(one.args, one.kwargs) for one in inputs):
        return _differs_in_distribution(answer, inputs)
    pairs = []
    try:
        for one in inputs:
            given = answer(*_fresh(one.args), **_fresh(one.kwargs))
            pairs.extend(_parts(given, one.right))
        pairs.extend(_parts(exercise.probe(answer), exercise.probe(exercise.solution)))
    except Exception:
        return True
    scale = max((_size(wanted) for _, wanted in pairs), default=0.0)
    return not all(_same(given, wanted, scale) for given, wanted in pairs)


def _parts(given: Any, wanted: Any) -> Iterator[tuple[Tensor | None, Tensor]]:
    """Pairs of numbers, or of texts as numbers; what is neither is left to the probe."""
    if isinstance(wanted, str):
        yield numbers([*str(given).encode()]), numbers([*wanted.encode()])
    elif numbers(wanted) is not None:
        yield numbers(given), numbers(wanted)
    elif isinstance(wanted, tuple | list):
        for part, other in zip(given, wanted, strict=True):
            yield from _parts(part, other)


def _size(value: Tensor) -> float:
    """The largest finite entry."""
    return value.nan_to_num(0.0, 0.0, 0.0).abs().max().item() if value.numel() else 0.0


def _same(given: Tensor | None, wanted: Tensor, scale: float) -> bool:
    if given is None or given.shape != wanted.shape:
        return False
    atol = 1e-6 * _size(wanted) + 1e-9 * scale
    return torch.allclose(given, wanted, rtol=0, atol=atol, equal_nan=True)


def _differs_in_distribution(answer: Answer, inputs: list[Input]) -> bool:
    """Whether, for the smallest inputs, moments differ by six standard errors over replays.

    Six standard errors are 36 replays in which a rare event changes the numbers, so that an answer
    that agrees with the reference in each of the first ``N_ALIKE`` is taken to agree in all.
    """
    for one in sorted(inputs, key=lambda one: one.size)[:6]:
        try:
            difference = one.moments(answer, range(N_ALIKE)) - one.reference[:N_ALIKE]
            if difference.abs().max() <= 1e-9:
                continue
            rest = one.moments(answer, range(N_ALIKE, N_REPLAYS)) - one.reference[N_ALIKE:]
        except Exception:
            return True
        difference = torch.cat([difference, rest])
        error = difference.std(0) / N_REPLAYS**0.5
        if (difference.mean(0).abs() > 6 * error + 1e-9).any():
            return True
    return False


def _moments(function: Answer, args: tuple, kwargs: dict, seed: int) -> Tensor:
    """Entries in the corner of the results and their products, with noise from ``seed``."""
    args, kwargs = _fresh((args, kwargs))
    for value in (*args, *kwargs.values()):
        if isinstance(value, Generator):
            value.manual_seed(seed)
    result = function(*args, **kwargs)
    corners = []
    for part, _ in _parts(result, result):
        first_three = (slice(3),) * part.ndim
        corners.append(part[first_three].flatten())
    corner = torch.cat(corners)
    products = torch.outer(corner, corner).flatten()
    return torch.cat([corner, products])


@contextlib.contextmanager
def bounded_memory(gib: float) -> Iterator[None]:
    """Refuse more memory than this beyond what is in use (on Linux)."""
    if not sys.platform.startswith("linux"):
        yield
        return
    import resource  # not on every system

    n_pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit, hard = resource.getrlimit(resource.RLIMIT_AS)
    bound = n_pages * resource.getpagesize() + int(gib * 2**30)
    if hard != resource.RLIM_INFINITY:
        bound = min(bound, hard)
    resource.setrlimit(resource.RLIMIT_AS, (bound, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
