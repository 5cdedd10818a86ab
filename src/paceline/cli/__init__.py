"""The command line: one file per group of commands, which parses, calls and prints.

What a command does belongs to the rooms below; only `actions` puts several of their calls together.
"""

from paceline.cli import bundles, checking, measuring, preparing, presenting, reading
from paceline.cli.application import app, main

# Each of these modules adds its commands to the application.
__all__ = [
    "app",
    "bundles",
    "checking",
    "main",
    "measuring",
    "preparing",
    "presenting",
    "reading",
]
