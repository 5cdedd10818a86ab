"""What tells this machine from an equal one, and stays when its host name changes."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import platform
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from paceline.system.errors import UserError
from paceline.system.paths import home

VARIABLE = "PACELINE_MACHINE_NAME"
FILE = "machine-id"  # in the home folder
NAMED, SYSTEM, KEPT = "name:", "system:", "home:"  # how an identity says where it is from
LONGEST_NAME = 60
NAME = re.compile(rf"[\w.+-]{{1,{LONGEST_NAME}}}")
SYSTEM_FILES = ("etc/machine-id", "var/lib/dbus/machine-id")
SALT = b"paceline machine identity 1"  # systemd asks that its id is not shown to anybody, but hashed by each program
ON_ITS_NODE = ".singularity.d"  # Singularity and Apptainer: the host name is the node's, and homes are often shared
CONTAINER_FILES = (".dockerenv", "run/.containerenv", ON_ITS_NODE)
CONTAINER_VARIABLES = ("container", "KUBERNETES_SERVICE_HOST")
ROOT_IN_LAYERS = re.compile(r"^(\S+ ){4}/ .* - (fuse-)?overlay", re.MULTILINE)


def name_machine(name: str | None) -> None:
    """Call this machine so until the process ends, as the variable does; None changes nothing."""
    if name is not None:
        os.environ[VARIABLE] = _checked(name)


def identity(root: Path = Path("/"), variables: Mapping[str, str] = os.environ) -> str:
    """The user's name for this machine; else the system's id, hashed; else a random one that the home folder keeps.

    An image brings its machine id into each of its containers, on any machine: inside, only the home folder counts.
    Empty where nothing is known, and then the host name counts.
    """
    if name := variables.get(VARIABLE, ""):
        return NAMED + _checked(name)
    found = "" if in_container(root, variables) else _system_id(root)
    return SYSTEM + found if found else _kept_id(platform.node() if (root / ON_ITS_NODE).exists() else "")


def name_in(identity: str) -> str:
    """The user's name for the machine; empty without one."""
    return identity.removeprefix(NAMED) if identity.startswith(NAMED) else ""


def in_container(root: Path, variables: Mapping[str, str]) -> bool:
    """As far as anybody can tell: Docker, Podman, Kubernetes, Singularity, or a root of an image's layers."""
    marked = any((root / name).exists() for name in CONTAINER_FILES)
    told = any(name in variables for name in CONTAINER_VARIABLES)
    return marked or told or ROOT_IN_LAYERS.search(_text(root / "proc/self/mountinfo")) is not None


def _system_id(root: Path) -> str:
    """As `sd_id128_get_machine_app_specific` makes it; empty where there is none, or the system is not set up yet."""
    found = next(filter(None, (_read_id(root / name) for name in SYSTEM_FILES)), "")
    return hmac.new(bytes.fromhex(found), SALT, hashlib.sha256).hexdigest()[:32] if found else ""


def _read_id(file: Path) -> str:
    """Both kinds look alike; empty for whatever is none."""
    text = _text(file).strip()
    return text if re.fullmatch(r"[0-9a-f]{32}", text) and text.strip("0") else ""


def _kept_id(node: str) -> str:
    """Made once, and again if it is damaged; empty where the home folder cannot be written.

    Nodes that share a home folder are different machines, where the name of the node is known.
    """
    file = home() / FILE
    with contextlib.suppress(OSError):
        if file.exists() and not _read_id(file):
            file.unlink()
        if not file.exists():
            _make_id(file)
    found = _read_id(file)
    if found and node:
        return KEPT + hashlib.sha256(f"{found} {node}".encode()).hexdigest()[:32]
    return KEPT + found if found else ""


def _make_id(file: Path) -> None:
    """Whole, and by the first of several processes."""
    file.parent.mkdir(parents=True, exist_ok=True)
    scratch = file.with_name(f".{FILE}.{secrets.token_hex(6)}.new")
    try:
        scratch.write_text(f"{secrets.token_hex(16)}\n", encoding="ascii")
        file.hardlink_to(scratch)
    except FileExistsError:
        return
    except OSError:  # a file system without links
        scratch.replace(file)
    finally:
        scratch.unlink(missing_ok=True)


def _checked(name: str) -> str:
    if not NAME.fullmatch(name):
        problem = f"{name[:LONGEST_NAME]!a} is no name for a machine"
        raise UserError(f"{problem}; take up to {LONGEST_NAME} letters, digits and . _ + - such as node-1.")
    return name


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
