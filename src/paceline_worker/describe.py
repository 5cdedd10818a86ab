"""What an interpreter has: `python -m paceline_worker.describe FRAMEWORK PACKAGE` imports the framework and tells."""

from __future__ import annotations

import json
import platform
import sys
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Dict

import paceline_worker
from paceline_worker.contract import load


def description(framework: str, package: str) -> Dict[str, Any]:
    """Its packages and where they lie; a framework that runs from its source has no metadata, only `__version__`."""
    load(framework)
    ours = Path(paceline_worker.__file__).parent.parent
    sites = [entry for entry in sys.path if Path(entry).is_dir() and Path(entry).absolute() != ours]
    packages = {str(found.metadata["Name"]): found.version for found in distributions(path=sites)}
    packages.setdefault(package, str(getattr(sys.modules.get(package), "__version__", "?")))
    return {"python_version": platform.python_version(), "sites": sites, "packages": packages}


if __name__ == "__main__":
    print("\n" + json.dumps(description(*sys.argv[1:])))
