"""``make test-gpu``: everything on a real GPU. Fails, never skips, without one.

Writes ``gpu_evidence.json`` after every part, so that a run that is cut short leaves what it has.
``--on cpu`` runs the parts on the CPU, small: that tests this file, and proves nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bdl_lessons.core.devices import device
from bdl_lessons.models import initialise
from reproductions.records import gpu_facts
from tests.device.calculations import CALCULATIONS, METHODS, TRAINED, network, steps, uniform
from tests.draws import seeded
from tools import address, readme

ROOT = Path(__file__).resolve().parents[2]
CPU = torch.device("cpu")
TOLERANCE = {"float64": 1e-10, "float32": 1e-4}
WAITS = 1  # in a training step
UNIT = ["core", "probability", "models", "reference", "inference", "evaluation"]
UNIT += ["panels", "exercises", "reproductions"]


@dataclass
class Run:
    """The GPU, how many processes run at a time, and the problems that a part found."""

    on: torch.device
    n_jobs: int
    problems: list[str] = field(default_factory=list)

    @property
    def small(self) -> bool:
        """On the CPU a hundredth of the work tests this file."""
        return self.on.type == "cpu"

    def expect(self, holds: bool, problem: str) -> None:
        if not holds:
            self.problems.append(problem)

    def generator(self, seed: int = 0) -> torch.Generator:
        return torch.Generator(self.on).manual_seed(seed)


def same_numbers(run: Run) -> dict[str, Any]:
    """(1) Every calculation on the GPU against the CPU, from one CPU generator."""
    facts = {}
    calculations = list(CALCULATIONS.items())[:: 25 if run.small else 1]
    for name, tolerance in TOLERANCE.items():
        worst = {}
        torch.set_default_dtype(getattr(torch, name))
        for what, calculation in calculations:
            try:
                here, there = (calculation(on, seeded()) for on in (CPU, run.on))
                worst[what] = _deviation(there, here)
                run.expect(worst[what] <= tolerance, f"{what}, {name}: {worst[what]:.1e} off")
            except Exception as error:
                run.problems.append(f"{what}, {name}: {type(error).__name__}: {error}")
        torch.set_default_dtype(torch.float32)
        largest = max(worst, key=worst.get)
        facts[name] = {"calculations": len(worst), "largest": worst[largest], "in": largest}
    return facts


def same_distributions(run: Run) -> dict[str, Any]:
    """(2) Means and variances of outputs, drawn by a generator on the GPU and by one on the CPU."""
    n = 400 if run.small else 20_000
    worst = {}
    for name, method in METHODS.items():
        if name == "MAP":
            continue
        layer = initialise(network(method, CPU), seeded(1))
        x = uniform((1, 6), CPU) + 0.5
        drawn = []
        for on in (CPU, run.on):
            module = layer[0].to(on)
            g = torch.Generator(on).manual_seed(1)
            with torch.no_grad():
                rows = x.to(on).expand(n, 1, 6)
                draws = {"shared": module(rows, "shared", g)[:, 0]}
                if "hierarchical" not in name:  # there a batch shares its scale
                    draws["per_example"] = module(rows[:, 0], "per_example", g)
            drawn.append({mode: f.cpu().double() for mode, f in draws.items()})
        for mode in drawn[0]:
            pair = [draws[mode] for draws in drawn]
            squares = [(draws - draws.mean(0)).square() for draws in pair]
            worst[f"{name}, {mode}"] = max(_z(*pair), _z(*squares))
    for what, value in worst.items():
        run.expect(value < 6, f"{what}: {value:.1f} standard errors apart")
    largest = max(worst, key=worst.get)
    return {"pairs": len(worst), "largest in standard errors": worst[largest], "in": largest}


def waits(run: Run) -> dict[str, Any]:
    """(3) Synchronisations of a training step, as CUDA's own debug mode counts them."""
    per_step = {}
    for name in TRAINED:
        step = partial(steps(name, run.on), generator=run.generator())
        step(n_steps=2)  # what is prepared once does not count
        few, more = (_waits(run, partial(step, n_steps=n)) for n in (2, 22))
        per_step[name] = (more - few) / 20
        run.expect(per_step[name] <= WAITS, f"{name}: {per_step[name]} waits a step")
    return {"budget": WAITS, "a step": per_step}


def tests(run: Run) -> dict[str, Any]:
    """(4) Unit tests and quick trials, and strict nbval of every lesson, on the GPU."""
    folders = ["core"] if run.small else UNIT
    tested = (f"tests/{name}" for name in folders)
    seconds, ok, text = _pytest(run.on.type, *tested, "-n", str(run.n_jobs))
    run.expect(ok, f"unit tests: {text}")
    facts: dict[str, Any] = {"unit tests": {"seconds": seconds, "result": text}}
    lessons = sorted((ROOT / "notebooks").glob("*.ipynb"))[: 1 if run.small else None]

    def replay(lesson: Path, kind: str) -> tuple[float, bool, str]:
        options = ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=300", "-p", "no:xdist"]
        options += ["--nbval-sanitize-with", "tests/nbval_sanitize.cfg"]
        return _pytest(kind, *options, str(lesson))

    cases = [(lesson, kind) for lesson in lessons for kind in (run.on.type, "cpu")]
    with ThreadPoolExecutor(run.n_jobs) as pool:
        replayed = list(pool.map(lambda case: replay(*case), cases))
    for (lesson, kind), (seconds, ok, text) in zip(cases, replayed, strict=True):
        facts.setdefault(lesson.stem, {})[f"seconds on {kind}"] = seconds
        run.expect(ok, f"{lesson.stem} on {kind}: {text}")
    return facts


PARTS = {
    "the same numbers": same_numbers,
    "the same distributions": same_distributions,
    "waits": waits,
    "tests and lessons": tests,
}


def main(arguments: list[str] | None = None) -> int:
    """Run all parts; the number of those that failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=readme.GPU_EVIDENCE.parent)
    parser.add_argument("--only", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--on", default="cuda", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    try:
        on = device(options.on)
    except ValueError as error:
        print(f"FAILED: {error}")
        return 1
    os.environ["BDL_DEVICE"] = on.type
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.set_num_threads(1)
    path = options.folder / readme.GPU_EVIDENCE.name
    evidence = _machine(on) | {"items": {}}
    n_failed = 0
    for name in options.only:
        run = Run(on, options.jobs)
        began = time.perf_counter()
        try:
            facts = PARTS[name](run)
        except Exception:
            facts = {}
            run.problems.append(traceback.format_exc())
        seconds = round(time.perf_counter() - began, 1)
        n_failed += bool(run.problems)
        result = {"passed": not run.problems, "seconds": seconds, "problems": run.problems[:20]}
        evidence["items"][name] = result | {"found": facts}
        path.write_text(json.dumps(evidence, indent=1) + "\n", encoding="utf-8")
        print(f"{'FAILED' if run.problems else 'ok    '} {name}, {seconds} s", flush=True)
        print(json.dumps(facts)[:3000], *run.problems[:20], sep="\n       ", flush=True)
    return n_failed


def _machine(on: torch.device) -> dict[str, Any]:
    facts = gpu_facts(on) or {"driver": "none", "cuda": "none"}
    return facts | {
        "date": datetime.now(UTC).date().isoformat(),
        "version": address.version(),
        "gpu": torch.cuda.get_device_name(on) if on.type == "cuda" else "no GPU",
        "torch": torch.__version__,
        "python": sys.version.split()[0],
    }


def _deviation(there: dict[str, Tensor], here: dict[str, Tensor]) -> float:
    """The largest difference by the largest entry; infinite where one is not finite.

    Each result has a scale of its own, but the gradients of a layer share one: some cancel.
    """
    off = Counter()
    size = Counter()
    for name, expected in here.items():
        actual = there[name].detach().cpu().double()
        expected = expected.detach().cpu().double()
        if actual.shape != expected.shape or not actual.isfinite().all():
            return float("inf")
        kind = name.partition(" of ")[0]
        off[kind] = max(off[kind], *(actual - expected).abs().flatten().tolist(), 0.0)
        size[kind] = max(size[kind], *expected.abs().flatten().tolist(), 1e-8)
    return max(off[kind] / size[kind] for kind in off)


def _z(first: Tensor, second: Tensor) -> float:
    """The largest difference of two means over draws ``(N, L)``, in standard errors."""
    variance = first.var(0) / len(first) + second.var(0) / len(second)
    return ((first.mean(0) - second.mean(0)).abs() / variance.sqrt()).max().item()


def _waits(run: Run, call) -> int:
    if run.on.type != "cuda":
        call()
        return 0
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum("synchronizing CUDA operation" in str(warning.message) for warning in caught)


def _pytest(kind: str, *arguments: str) -> tuple[float, bool, str]:
    """Seconds of pytest on a device, whether it passed, and what it says at its end."""
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider"]
    settings = {"BDL_DEVICE": kind, "OMP_NUM_THREADS": "1", "JUPYTER_PLATFORM_DIRS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        settings |= {"IPYTHONDIR": folder, "MPLCONFIGDIR": folder}
        began = time.perf_counter()
        done = subprocess.run(
            [*command, *arguments],
            cwd=ROOT,
            env=os.environ | settings,
            capture_output=True,
            text=True,
        )
    seconds = round(time.perf_counter() - began, 1)
    lines = (done.stdout.strip() or done.stderr.strip() or "nothing").splitlines()
    wrong = [line for line in lines if re.match("FAILED|ERROR|E  ", line)]
    return seconds, done.returncode == 0, "\n".join([*wrong[:20], lines[-1]])


if __name__ == "__main__":
    sys.exit(main())
