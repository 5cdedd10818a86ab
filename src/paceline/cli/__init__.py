"""The command line: it parses and calls; the library does."""

from paceline.cli import bundles, measuring, pictures, preparing, proving, reading, reporting, serving
from paceline.cli.application import app, main

# Each of these modules adds its commands to the application.
__all__ = [
    "app",
    "bundles",
    "main",
    "measuring",
    "pictures",
    "preparing",
    "proving",
    "reading",
    "reporting",
    "serving",
]
