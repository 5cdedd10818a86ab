"""Where Paceline keeps environments and results on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def home() -> Path:
    """`$PACELINE_HOME`, or the user's data directory."""
    return Path(os.environ.get("PACELINE_HOME") or platformdirs.user_data_dir("paceline")).expanduser().absolute()


def environments_folder() -> Path:
    return home() / "environments"


def default_store() -> Path:
    return home() / "results"
