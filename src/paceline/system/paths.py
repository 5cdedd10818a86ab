"""Where Paceline keeps environments and results on this machine."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """`$PACELINE_HOME`, or the user's data directory."""
    return Path(os.environ.get("PACELINE_HOME") or _users_own()).expanduser().absolute()


def _users_own() -> str:
    import platformdirs  # every command imports this file, and few need to know

    return platformdirs.user_data_dir("paceline")


def environments_folder() -> Path:
    """`$PACELINE_ENVIRONMENTS`, so that homes of their own can share what takes gigabytes; else in the home."""
    chosen = os.environ.get("PACELINE_ENVIRONMENTS")
    return Path(chosen).expanduser().absolute() if chosen else home() / "environments"


def default_store() -> Path:
    return home() / "results"
