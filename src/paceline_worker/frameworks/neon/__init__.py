"""Nervana's neon: NumPy on processors; discontinued, and brought by the user because pip cannot install it."""

from __future__ import annotations

from paceline_worker.frameworks.neon.shims import prepare

prepare()  # before any file here imports neon
