"""What several test files share."""

from __future__ import annotations

from pathlib import Path

import hypothesis
import pytest

from tests.command_line import CommandLine

hypothesis.settings.register_profile("shared machine", deadline=None)  # a slow moment is no failure
hypothesis.settings.load_profile("shared machine")


@pytest.fixture
def paceline(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "store")
