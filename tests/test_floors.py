"""The package is a house: a module imports from floors below its own, never from above."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "bdl_lessons"
HOUSE = [
    {"check", "device", "known_slope", "markdown", "require", "side_by_side"}
    | {"plots", "panel", "datasets", "published", "checkpoint"},
    {"masks", "kl", "kl_loguniform", "kernels", "random_features"}
    | {"improper_prior", "quantised_kl", "householder_gradients", "kl_empirical_bayes"},
    {"noise", "dropout_moments", "kl_lognormal", "householder"},
    {"gaussian_vi", "baselines", "gp", "layers", "low_rank_precision"},
    {"models"},
    {"resnet"},
    {"elbo", "weight_decay", "train", "predict", "predictive", "prune", "batch_norm"},
    {
        "members",
        "comparing",
        "sparse_file",
        "shrink",
        "metrics",
        "ood",
        "gradient_variance",
        "induced_regularization",
    },
    {"deep_ensemble", "slang", "swag"},
    {"results"},
    {"experiments"},
    {"panels", "exercises", "course"},
    {"environment", "routes"},
    {"instructor", "tools"},
    {"__main__"},
]
FLOOR = {room: number for number, rooms in enumerate(HOUSE) for room in rooms}
MODULES = sorted(
    path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.stem != "__init__"
)


def room(path):
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imported_rooms(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "bdl_lessons":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module.startswith("bdl_lessons."):
            yield node.module.split(".")[1]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_only_go_down(path):
    here = room(path)
    for other in imported_rooms(path):
        below = FLOOR.get(other, 0) < FLOOR[here]
        assert other == here or below or {here, other} <= HOUSE[0], f"{here} imports {other}"


def test_the_readme_names_every_room():
    readme = (PACKAGE.parent / "README.md").read_text()
    there = {room(path) for path in MODULES}
    missing = {name for name in there if f"`{name}" not in readme} - {"__main__"}
    assert not missing
