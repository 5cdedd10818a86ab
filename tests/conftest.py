"""What several test files share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line import CommandLine


@pytest.fixture
def paceline(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "store")
