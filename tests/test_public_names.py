"""No public name of the package that only tests use.

A public function, class or constant must be used in the package outside its own definition, or in
a notebook; so must the name of a public method. A subpackage that exports a name does not use it.
Imports are followed, so that two functions of one name do not stand for each other. A formula that
a module ``…_fast`` computes under the same name is the definition that readers read, and counts as
used.
"""

import ast
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("bdl_lessons", "reproductions", "tools")

HOOKS = {
    "EXPERIMENT": "reproductions.load finds it by the name of the experiment",
    "EXERCISES": "the grader finds it by the number of the lesson",
    "make_arrays": "reproductions finds it by the name of the arrays",
    "show_solution": "lesson 00 tells readers to call it",
    "forward": "nn.Module, autograd.Function and gpytorch.kernels.Kernel call it",
    "backward": "autograd.Function calls it",
    "setup_context": "autograd.Function calls it",
    "vmap": "torch.func calls it",
    "extra_repr": "nn.Module prints it",
    "setup": "Sphinx calls it in an extension",
    "slug": "myst-parser calls it, by the configuration of the site",
    "get_canvas_width_height": "matplotlib asks a renderer",
    "points_to_pixels": "matplotlib asks a renderer",
    "option_scale_image": "matplotlib asks a renderer",
    "draw_path": "matplotlib draws with a renderer",
    "draw_markers": "matplotlib draws with a renderer",
    "draw_image": "matplotlib draws with a renderer",
    "draw_text": "matplotlib draws with a renderer",
}


@dataclass(frozen=True)
class Definition:
    """A public name ``module.name``, or ``module.Class.name`` for a method, with its lines."""

    module: str
    name: str
    lines: range
    owner: str = ""

    def __str__(self) -> str:
        return ".".join(filter(None, [self.module, self.owner, self.name]))


@dataclass(frozen=True)
class Source:
    """The code of one module, or of all cells of one notebook."""

    module: str
    tree: ast.Module
    is_face: bool = False

    @property
    def package(self) -> str:
        return self.module if self.is_face else self.module.rpartition(".")[0]


def parsed_package(root: Path) -> list[Source]:
    sources = []
    for path in sorted(path for name in PACKAGES for path in (root / name).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        is_face = parts[-1] == "__init__"
        module = ".".join(parts[:-1] if is_face else parts)
        sources.append(Source(module, ast.parse(path.read_text(encoding="utf-8")), is_face))
    return sources


def parsed_notebooks(root: Path) -> list[Source]:
    sources = []
    for path in sorted(root.glob("notebooks/*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        sources.append(Source(path.stem, ast.parse("\n".join(code))))
    return sources


def definitions(source: Source) -> list[Definition]:
    found = []
    for node in source.tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not is_command(node):
            found.append(Definition(source.module, node.name, lines_of(node)))
        if isinstance(node, ast.ClassDef) and not is_protocol(node):
            for part in node.body:
                if isinstance(part, ast.FunctionDef):
                    lines = lines_of(part)
                    found.append(Definition(source.module, part.name, lines, node.name))
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                for name in ast.walk(target):
                    if isinstance(name, ast.Name):
                        found.append(Definition(source.module, name.id, lines_of(node)))
    return [d for d in found if not d.name.startswith("_") and d.name not in HOOKS]


def lines_of(node: ast.stmt) -> range:
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    return range(first, node.end_lineno + 1)


def is_command(node: ast.stmt) -> bool:
    """Whether the command line calls it: ``@app.command()``."""
    return any(".command" in ast.unparse(decorator) for decorator in node.decorator_list)


def is_protocol(node: ast.ClassDef) -> bool:
    return any("Protocol" in ast.unparse(base) for base in node.bases)


class Names:
    """What the names of the package stand for, imports and faces followed."""

    def __init__(self, sources: list[Source]) -> None:
        self.modules = {source.module: source for source in sources}

    @cache  # noqa: B019  (lives as long as one test)
    def imported(self, source: Source) -> dict[str, set[str]]:
        """Local name -> dotted names, for every import of the package in ``source``.

        Two functions may import different things under one name.
        """
        found = {}
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGES):
                for alias in node.names:
                    dotted = f"{node.module}.{alias.name}"
                    found.setdefault(alias.asname or alias.name, set()).add(dotted)
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.asname and alias.name.startswith(PACKAGES):
                        found.setdefault(alias.asname, set()).add(alias.name)
        return found

    def resolve(self, dotted: str) -> str:
        """Where a dotted name is defined, however many faces hand it on."""
        for _ in range(5):
            module, _, name = dotted.rpartition(".")
            if module not in self.modules:
                return dotted
            handed_on = self.imported(self.modules[module]).get(name)
            if handed_on:  # also where a module has the same name: the face hands on the function
                (dotted,) = handed_on
                continue
            return dotted
        return dotted

    def used(self, source: Source) -> list[tuple[str, int]]:
        """Dotted names that ``source`` uses, with their lines."""
        imported, found = self.imported(source), []
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                for dotted in imported.get(node.id, {f"{source.module}.{node.id}"}):
                    found.append((self.resolve(dotted), node.lineno))
            if isinstance(node, ast.Attribute):
                chain = ast.unparse(node).split(".")
                for dotted in imported.get(chain[0], ()):
                    module = self.resolve(dotted)
                    for part in chain[1:]:
                        if module not in self.modules:
                            break
                        module = self.resolve(f"{module}.{part}")
                    found.append((module, node.lineno))
        return found


def unused(root: Path) -> list[str]:
    package, notebooks = parsed_package(root), parsed_notebooks(root)
    names = Names(package)
    uses: dict[str, list[tuple[str, int]]] = {}
    attributes: dict[str, list[tuple[str, int]]] = {}
    for source in [*package, *notebooks]:
        for dotted, line in names.used(source):
            uses.setdefault(dotted, []).append((source.module, line))
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Attribute):
                attributes.setdefault(node.attr, []).append((source.module, node.lineno))
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("hasattr", "getattr"):
                for argument in node.args[1:2]:
                    if isinstance(argument, ast.Constant):
                        place = (source.module, node.lineno)
                        attributes.setdefault(argument.value, []).append(place)

    def is_used(definition: Definition) -> bool:
        places = attributes if definition.owner else uses
        key = definition.name if definition.owner else str(definition)
        return any(
            module != definition.module or line not in definition.lines
            for module, line in places.get(key, [])
        )

    fast = {
        (source.package, definition.name)
        for source in package
        if source.module.endswith("_fast")
        for definition in definitions(source)
    }
    return [
        str(d)
        for source in package
        for d in definitions(source)
        if not is_used(d) and (source.package, d.name) not in fast
    ]


def test_no_public_name_is_there_for_tests_alone():
    assert unused(ROOT) == []


SMALL = {
    "core/__init__.py": """
        from bdl_lessons.core.tools import faced, handed_on, used_through_the_face
        from bdl_lessons.core.same import same
    """,
    "core/same.py": "def same(): ...",
    "core/tools.py": """
        ONLY_TESTS = USED = 1
        def faced(): return faced()
        def handed_on(): return USED
        def used_through_the_face(): ...
        def used_as_attribute(): ...
        def used_by_a_notebook(): ...
        def imported_inside(): ...
        def table(): ...
        class Thing:
            def method(self): return self.other() + hasattr(self, "asked")
            def other(self): return self.other()
            def asked(self): ...
            def lonely(self): return self.lonely()
            def forward(self): ...
            def _private(self): ...
    """,
    "core/plain.py": "def formula(): ...\ndef no_twin(): ...",
    "core/plain_fast.py": "def formula(): ...",
    "core/late.py": "def first(): ...\ndef second(): ...",
    "core/other.py": """
        from bdl_lessons.core import same, tools, used_through_the_face
        from bdl_lessons.core.tools import Thing as T
        def table(): return tools.used_as_attribute(), used_through_the_face(), T().method
        def _private(): return table(), same()
        def _one():
            from bdl_lessons.core import late as tool
            return tool.first()
        def _two():
            from bdl_lessons.core import tools as tool
            return tool.imported_inside()
    """,
}


def test_the_rule_on_a_small_package(tmp_path):
    for path, code in SMALL.items():
        (tmp_path / "bdl_lessons" / path).parent.mkdir(parents=True, exist_ok=True)
        lines = [line.removeprefix("        ") for line in code.splitlines()]
        (tmp_path / "bdl_lessons" / path).write_text("\n".join(lines))
    cell = "from bdl_lessons.core.tools import used_by_a_notebook as u\nu()"
    (tmp_path / "notebooks").mkdir()
    notebook = {"cells": [{"cell_type": "code", "source": [cell]}]}
    (tmp_path / "notebooks" / "01.ipynb").write_text(json.dumps(notebook))
    assert unused(tmp_path) == [
        f"bdl_lessons.core.{name}"
        for name in (
            "late.second",
            "plain.no_twin",
            "tools.ONLY_TESTS",
            "tools.faced",
            "tools.handed_on",
            "tools.table",
            "tools.Thing.lonely",
        )
    ]
