"""Where Paceline keeps environments and results on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def home() -> Path:
    """`$PACELINE_HOME`, or the user's data directory."""
    return Path(os.environ.get("PACELINE_HOME") or platformdirs.user_data_dir("paceline")).expanduser().absolute()


def environments_folder() -> Path:
    """`$PACELINE_ENVIRONMENTS`, so that homes of their own can share what takes gigabytes; else in the home."""
    chosen = os.environ.get("PACELINE_ENVIRONMENTS")
    return Path(chosen).expanduser().absolute() if chosen else home() / "environments"


def default_store() -> Path:
    return home() / "results"
