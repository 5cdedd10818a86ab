"""What is given: suites, flags, bundles, stores and logs, each from a seed and a number."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from paceline.bundles.manifest import MANIFEST_FILE
from paceline.plan.settings import FIELDS
from paceline.plan.suite import known_suites
from paceline.run.worker import LOG_FILE
from paceline.store.index.file import INDEX_FILE
from paceline.store.records.runs import RUN_FOLDER
from tests.bundles.made import FIRST, Files, pack, read, with_true_list
from tests.fuzz import nasty
from tests.fuzz.children import Input
from tests.fuzz.material import Material

LAYOUTS = ("rows", "sources", "matrix", "long", "transposed")
FORMATS = ("text", "markdown", "csv", "json", "findings")
CHARTS = ("speed", "scaling", "memory", "steps", "loss", "accuracy", "phases", "batch")


def suites(draw: random.Random, material: Material) -> Input:
    """A suite that comes with Paceline, or one with every key, that somebody has spoiled."""
    folder = material.folder()
    good = draw.choice([*(path.read_text() for path in known_suites().values()), EVERY_KEY])
    spoiled = nasty.changed_text(good, draw) if draw.random() < 0.8 else _any_keys(draw)
    path = folder / "x.toml"
    if draw.random() < 0.9:
        path.write_bytes(spoiled.encode("utf-8", "surrogatepass"))
    else:
        _in_its_place(path, draw)
    more = draw.choice(((), (), ("--quick",), ("--framework", "fake"), ("--devices", "1xcpu,2xcpu", "--steps", "30")))
    return Input("suites", ("plan", str(path), *more, "--store", str(folder / "none")), folder, (), ("none",))


EVERY_KEY = """
workload = ["cifar10-conv", "mnist-mlp"]
framework = ["fake"]
devices = ["1xcpu", "2xcpu"]
update = ["replicated", "independent"]
parameter_device = "cpu"
data = ["fake:device"]
precision = "float32"
batch_size = [64, 128]
shares = ["equal", "1:1"]
slow = "1:2.0"
single = "both"
steps = 30
warmup = 3
lr = 0.1
lr_rule = "linear"
seed = 7
cores_per_device = 1
repeats = 2
layout = "matrix"
interval_target = 0.03
budget = 60.0
timeout = 60
[[part]]
precision = "float32"
[[part]]
seed = 3
[quick]
steps = 20
[[quick.part]]
devices = "1xcpu"
"""


def _any_keys(draw: random.Random) -> str:
    """Every key with anything."""
    lines = ['workload = "cifar10-conv"', 'framework = "fake"']
    for key in draw.sample(sorted(FIELDS), draw.randint(1, 5)):
        value = nasty.word(draw)
        listed = f"[{', '.join([value] * draw.choice((1, 3, 400)))}]"
        lines.append(f"{key} = {draw.choice((value, repr(value)[:70_000], listed))}")
    return "\n".join(lines)


def flags(draw: random.Random, material: Material) -> Input:
    """A command that measures nothing, with flags and words that it has and others."""
    folder = material.folder()
    shutil.copytree(material.store, folder / "store")
    command, own = draw.choice(tuple(COMMANDS.items()))
    words = [command]
    for flag in draw.sample((*own, "--bogus", "-x"), draw.randint(1, min(4, len(own)))):
        words += [flag, *([nasty.word(draw)] if draw.random() < 0.9 else [])]
    words += [nasty.word(draw) for _ in range(draw.choice((0, 0, 1, 2)))]
    words += NEVER_VALID.get(command, [])
    words = [word.replace("\0", "") for word in words]
    given = tuple(words if "--store" in words else [words[0], "--store", str(folder / "store"), *words[1:]])
    written = ("out.svg", "out.html", "out.zip", "report.html", "bundle.zip", *(f"{kind}.svg" for kind in CHARTS))
    return Input("flags", given, folder, (folder / "store",), written, raw=command == "log")


CHOICES = tuple(f"--{key.replace('_', '-')}" for key in FIELDS if key not in ("name", "parts", "quick", "workload"))
FILTERS = ("--suite", "--workload", "--framework", "--devices", "--data", "--target")
COMMANDS = {
    "plan": ("cifar10-conv", "fake", *CHOICES, "--gpus", "--scale", "--quick"),
    "show": (*FILTERS, "--layout", "--with", "--format"),
    "compare": ("suite:made", "--metric", "--threshold", "--format"),
    "chart": ("speed", "--table", "--theme", *FILTERS),
    "report": FILTERS,
    "export": ("--suite", "--plan", "--all"),
    "log": (FIRST,),
    "explain": ("cifar10-conv", *CHOICES, "--rounds"),
    "verify": ("--devices", "--batch-size", "--update"),
    "time": ("--repeats", "--warmup-runs", "--devices", "--metric", "--preset", "--timeout", "--name"),
    "replay": (FIRST, "--repeats"),
    "serve": ("--host", "--port"),
    "nothing": ("--version", "--help"),
}
# Commands that would measure, or go on for ever, get a last word that no one takes.
NEVER_VALID = {
    "explain": ["--rounds", "0"],
    "verify": ["--framework", "nobody"],
    "time": ["--repeats", "0", "--", "true"],
    "replay": ["--repeats", "0"],
    "serve": ["--port", "-1"],
}


def bundles(draw: random.Random, material: Material) -> Input:
    """A bundle with other bytes, or one whose forger has made its checksums right again; for a store that has the
    same runs already, or for none yet."""
    folder = material.folder()
    store, path = folder / "store", folder / "x.zip"
    if draw.random() < 0.3:
        shutil.copytree(material.store, store)
    if draw.random() < 0.2:
        path.write_bytes(nasty.changed_bytes(material.bundle.read_bytes(), draw))
    elif draw.random() < 0.05:
        _in_its_place(path, draw)
    else:
        pack(_forged(read(material.bundle), draw), path)
    here = ("--store", str(store))
    then = draw.choice(
        (
            ("show", "--layout", draw.choice(LAYOUTS), "--format", draw.choice(FORMATS)),
            ("report", "-o", str(folder / "out.html")),
            ("compare", str(store), str(store)),
        )
    )
    return Input("bundles", ("import", str(path), *here), folder, (store,), ("store",), (*then, *here))


def _forged(files: Files, draw: random.Random) -> Files:
    """With another content or name of one of them; the list that it is on is mostly made right again."""
    name = draw.choice(sorted(files))
    changed = nasty.changed_json(files[name], draw) if name.endswith("json") else _changed_lines(files[name], draw)
    files = {**files, name: changed}
    if draw.random() < 0.1:
        files[_name(name, draw)] = files.pop(name)
    return with_true_list(files) if name != MANIFEST_FILE and draw.random() < 0.9 else files


def _name(name: str, draw: random.Random) -> str:
    return draw.choice((f"../{name}", f"/{name}", name.upper(), f"{name}/x", f"{name}\u202e", "runs/x", f"runs/{name}"))


def _changed_lines(content: bytes, draw: random.Random) -> bytes:
    """One of its lines is another, or there are many more."""
    lines = content.split(b"\n")
    place = draw.randrange(len(lines))
    lines[place] = nasty.changed_json(lines[place], draw)
    if draw.random() < 0.1:
        lines[place:place] = [draw.choice((b"", b"{}", b"[]", lines[place]))] * 100_000
    return b"\n".join(lines)


def stores(draw: random.Random, material: Material) -> Input:
    """A store of which some file is damaged, or is no file."""
    store = material.copy_of_store()
    if draw.random() < 0.5:
        (store / INDEX_FILE).unlink()  # else records are not read again
    for _ in range(draw.choice((1, 1, 2))):
        _spoil(draw.choice([path for path in sorted(store.rglob("*")) if not path.is_symlink()]), draw)
    return _asked("stores", draw, store)


def logs(draw: random.Random, material: Material) -> Input:
    """A run whose log is hostile, huge, or no file."""
    store = material.copy_of_store()
    log = store / RUN_FOLDER / FIRST / LOG_FILE
    if draw.random() < 0.3:
        _in_its_place(log, draw)
    else:
        log.write_bytes(b"".join(nasty.word(draw).encode() + b"\r\n"[draw.randint(0, 2) :] for _ in range(50)))
    if draw.random() < 0.1:
        os.truncate(log, 1 << 33) if log.is_file() and not log.is_symlink() else None
    return _asked("logs", draw, store)


def _spoil(path: Path, draw: random.Random) -> None:
    if path.is_file() and draw.random() < 0.75:
        change = nasty.changed_json if path.suffix == ".json" else _changed_lines
        change = nasty.changed_bytes if path.suffix == ".sqlite" or draw.random() < 0.2 else change
        path.write_bytes(change(path.read_bytes(), draw))
    else:
        _in_its_place(path, draw)


def _in_its_place(path: Path, draw: random.Random) -> None:
    """Something that is no such file."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    draw.choice(INSTEAD)(path)


INSTEAD: tuple[Callable[[Path], object], ...] = (
    os.mkfifo,
    Path.mkdir,
    Path.touch,
    lambda path: path.symlink_to("/dev/zero"),
    lambda path: path.symlink_to("/etc/passwd"),
    lambda path: path.symlink_to(path.name),
    lambda path: path.symlink_to("/"),
    lambda path: path.symlink_to("nowhere"),
    lambda path: None,
)


def _asked(kind: str, draw: random.Random, store: Path) -> Input:
    """A command that reads it."""
    out = store.parent
    words = draw.choice(
        (
            ("show", "--layout", draw.choice(LAYOUTS), "--format", draw.choice(FORMATS)),
            ("show", "--suite", "made", "--format", draw.choice(FORMATS)),
            ("log", FIRST),
            ("report", "-o", str(out / "out.html")),
            ("chart", draw.choice(CHARTS), "-o", str(out / "out.svg")),
            ("export", "--all", "-o", str(out / "out.zip")),
            ("compare", "suite:made", "suite:made"),
            ("index",),
            ("plan", "cifar10-conv", "--framework", "fake"),
            ("audit", str(store)),
        )
    )
    more = () if words[0] == "audit" else ("--store", str(store))
    return Input(kind, (*words, *more), out, (store,), ("out.html", "out.svg", "out.zip"), raw=words[0] == "log")


KINDS: dict[str, Callable[[random.Random, Material], Input]] = {
    "suites": suites,
    "flags": flags,
    "bundles": bundles,
    "stores": stores,
    "logs": logs,
}
