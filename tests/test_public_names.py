"""No public name that only tests use.

The name of a public function, class, constant or method must stand somewhere in the three packages,
in a notebook or on the page about own data, outside its own definition. Handing a name on in an
``__init__`` is not a use.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from bdl_lessons.core.files import ROOT
from tools import notebook

PACKAGES = ("bdl_lessons", "reproductions", "tools")
CALLED_BY_OTHERS = {
    "forward", "backward", "setup_context", "vmap", "extra_repr", "get_extra_state",
    "set_extra_state", "EXPERIMENT", "EXERCISES", "setup", "slug", "footer",
    "show_solution", "invoke", "VARIANCE", "SPEED", "SIZES", "CO2", "DIGIT",
    "get_canvas_width_height", "points_to_pixels", "option_scale_image", "draw_path",
    "draw_markers", "draw_image", "draw_text", "playground", "writable",
}  # fmt: skip
"""Names that PyTorch, matplotlib, Sphinx, a look-up by name or a reader calls."""


def sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))
    for path in notebook.paths():
        code = "\n".join(cell.source for cell in notebook.code_of(notebook.read(path)))
        yield path.name, ast.parse(code)
    page = ROOT / "docs" / "own_data.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    yield page.name, ast.parse("\n".join(blocks))


def definitions(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Public functions, classes and constants of a module, and public methods, with their code."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            commanded = any(".command" in ast.unparse(one) for one in node.decorator_list)
            inner = node.body if isinstance(node, ast.ClassDef) else []
            methods = [part for part in inner if isinstance(part, ast.FunctionDef)]
            yield from ((part.name, part) for part in [node, *methods] if not commanded)
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [name for target in targets for name in ast.walk(target)]
            yield from ((name.id, node) for name in names if isinstance(name, ast.Name))


def uses(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id, node.lineno
        if isinstance(node, ast.Attribute):
            yield node.attr, node.lineno
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("hasattr", "getattr"):
            yield from ((a.value, a.lineno) for a in node.args if isinstance(a, ast.Constant))


def test_no_public_name_is_there_for_tests_alone():
    parsed = list(sources())
    places = defaultdict(list)
    for file, tree in parsed:
        for name, line in uses(tree):
            places[name].append((file, line))
    assert [
        f"{file}: {name}"
        for file, tree in parsed
        if file.endswith(".py")
        for name, node in definitions(tree)
        if not name.startswith("_") and name not in CALLED_BY_OTHERS
        if not any(f != file or not node.lineno <= i <= node.end_lineno for f, i in places[name])
    ] == []
