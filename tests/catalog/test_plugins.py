"""Plug-ins: found by entry point, used like our own; a broken one is named and the rest works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "paceline-chainer"
WORKLOAD = """
from paceline.catalog.workloads.definition import Workload
from paceline.catalog.networks import NETWORKS
from paceline_worker.protocol import Recipe
GOOD = Workload(name="good", network="cifar10-conv", build=NETWORKS["cifar10-conv"], classes=10,
                recipe=Recipe(learning_rate=0.1), batch_size=8, epochs=1, images_per_epoch=10, origin="a test")
"""
TOML = """
title = "Other"
package = "numpy"
devices = ["cpu"]
updates = ["replicated"]
data = ["fake:device"]
precisions = ["float32"]
processes = "one"
launcher = "direct"
"""


def package(folder: Path, name: str, files: dict[str, str], points: dict[str, str]) -> None:
    """An installed package with its metadata, as pip would leave it."""
    for path, text in files.items():
        (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / name / path).write_text(text)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"[paceline.{group}]\n{point}\n" for group, point in points.items()]
    (info / "entry_points.txt").write_text("\n".join(lines))


def paceline(plugins: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "paceline", *words],
        env={**os.environ, "PYTHONPATH": str(plugins), "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


EMPTY = ("__init__.py", "builder.py", "backend.py", "requirements.txt")
FRAMEWORK_FILES = {**dict.fromkeys(EMPTY, ""), "framework.toml": TOML}
GOOD = {"workloads": "good = plug.work:GOOD"}


def test_framework_and_workload_of_another_package_are_listed(tmp_path: Path) -> None:
    framework = {f"other/{name}": text for name, text in FRAMEWORK_FILES.items()}
    files = {"__init__.py": "", "work.py": WORKLOAD, **framework}
    package(tmp_path, "plug", files, {"frameworks": "other = plug.other", "workloads": "good = plug.work:GOOD"})
    listed = paceline(tmp_path, "list", "frameworks")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "\nother " in listed.stdout
    assert "\ngood: cifar10-conv, batch 8" in paceline(tmp_path, "list", "workloads").stdout


def test_plugin_may_still_import_names_of_the_first_version(tmp_path: Path) -> None:
    older = WORKLOAD.replace("paceline.catalog.", "paceline.")
    assert "from paceline.workloads.definition import" in older
    package(tmp_path, "plug", {"__init__.py": "", "work.py": older}, GOOD)
    listed = paceline(tmp_path, "list", "workloads")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "\ngood: cifar10-conv, batch 8" in listed.stdout


def test_tests_of_a_plugin_may_import_older_names_and_are_told_the_new_ones() -> None:
    """Before anything of Paceline has looked for plug-ins, and the same modules, not copies of them."""
    program = """
from paceline.workloads.definition import Workload
from paceline.networks import blocks
import paceline.networks
from paceline.catalog.networks import blocks as new_blocks
from paceline.catalog.workloads.definition import Workload as NewWorkload
assert (Workload, blocks, paceline.networks.blocks) == (NewWorkload, new_blocks, new_blocks)
assert new_blocks.__spec__.name == "paceline.catalog.networks.blocks"
"""
    ended = subprocess.run(
        [sys.executable, "-W", "always::DeprecationWarning", "-c", program], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    warnings = [line for line in ended.stderr.splitlines() if "DeprecationWarning" in line]
    assert warnings == [
        f"<string>:{line}: DeprecationWarning: paceline.{name} is paceline.catalog.{name}; its old name goes with 0.3"
        for line, name in ((2, "workloads"), (3, "networks"))
    ]


@pytest.mark.filterwarnings("ignore:paceline.workloads is:DeprecationWarning")
def test_module_that_never_was_is_missing_under_an_older_name() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'paceline\.catalog\.workloads\.nowhere'"):
        import_module("paceline.workloads.nowhere")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "points", "problem"),
    [
        ({}, {"frameworks": "other = nowhere.at.all"}, "ModuleNotFoundError: No module named 'nowhere'"),
        ({"one.py": ""}, {"frameworks": "other = plug.one"}, "ValueError: plug.one is no package"),
        ({"__init__.py": "1 / 0"}, {"frameworks": "other = plug.one"}, "ZeroDivisionError: division by zero"),
        ({"__init__.py": "raise SystemExit(3)"}, {"frameworks": "other = plug.one"}, "SystemExit: 3"),
        (FRAMEWORK_FILES, {"frameworks": "torch = plug"}, "ValueError: its name is taken"),
        ({**FRAMEWORK_FILES, "framework.toml": "title ="}, {"frameworks": "other = plug"}, "TOMLDecodeError: Invalid"),
        ({**FRAMEWORK_FILES, "framework.toml": "a = 1"}, {"frameworks": "other = plug"}, "ValidationError: Object"),
        (
            {name: text for name, text in FRAMEWORK_FILES.items() if name != "backend.py"},
            {"frameworks": "other = plug"},
            "backend.py is missing",
        ),
        ({"work.py": "GOOD = 3"}, GOOD, "is not a Workload named good"),
        ({"work.py": WORKLOAD}, {"workloads": "better = plug.work:GOOD"}, "is not a Workload named better"),
        ({"work.py": WORKLOAD.replace('build=NETWORKS["cifar10-conv"]', "build=print")}, GOOD, "TypeError: "),
    ],
)
def test_broken_plugin_is_named_and_the_rest_works(
    tmp_path: Path, files: dict[str, str], points: dict[str, str], problem: str
) -> None:
    package(tmp_path, "plug", {"__init__.py": "", **files}, points)
    (group,) = points
    listed = paceline(tmp_path, "list", group)
    assert listed.returncode == 0
    assert listed.stdout == paceline(tmp_path / "nothing", "list", group).stdout
    (line,) = listed.stderr.splitlines()
    assert line.startswith("paceline: plug-in ")
    assert "of plug is left out: " in line
    assert problem in line


@pytest.mark.slow
def test_results_outlive_the_plugin_that_made_them(tmp_path: Path) -> None:
    package(tmp_path, "plug", {"__init__.py": "", "work.py": WORKLOAD}, GOOD)
    store = ("--store", str(tmp_path / "store"))
    quick = ("--framework", "fake", "--steps", "3", "--warmup", "1", "--repeats", "1")
    assert paceline(tmp_path, "run", "good", *quick, *store).returncode == 0
    shown = paceline(tmp_path / "nothing", "show", "--format", "json", *store)
    (row,) = json.loads(shown.stdout)
    assert (row["workload"], row["status"], row["parameters"]) == ("good", "ok", None)
    assert paceline(tmp_path / "nothing", "show", *store).returncode == 0


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example package, installed by pip into a folder of its own."""
    folder = tmp_path_factory.mktemp("plugins")
    source = folder / "source"
    subprocess.run(["cp", "-r", EXAMPLE, source], check=True)  # pip leaves its build beside the source
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(folder / "site"),
        str(source),
    ]
    subprocess.run(pip, check=True, capture_output=True, timeout=300)
    return folder / "site"


@pytest.mark.slow
def test_example_equals_the_reference(example: Path, tmp_path: Path) -> None:
    store = ("--store", str(tmp_path))
    verified = paceline(example, "verify", "cifar10-tiny", "cifar10-conv", "--framework", "chainer", *store)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert verified.stdout.count("equal") == 2


@pytest.mark.slow
def test_example_is_measured_beside_our_own(example: Path, tmp_path: Path) -> None:
    store = ("--store", str(tmp_path))
    quick = ("--framework", "chainer,torch", "--batch-size", "8", "--steps", "3", "--warmup", "1", "--repeats", "1")
    measured = paceline(example, "run", "cifar10-tiny", *quick, *store)
    assert measured.returncode == 0, measured.stderr
    rows = json.loads(paceline(example, "show", "--format", "json", *store).stdout)
    assert [(row["framework"], row["status"]) for row in rows] == [("chainer", "ok"), ("torch", "ok")]
