"""Data sets: fetched, checked and prepared once, then read by every worker from the same files."""

from paceline.datasets.getting import ensure, get
from paceline.datasets.known import KNOWN
from paceline.datasets.prepared import Dataset, find, intact

__all__ = ["KNOWN", "Dataset", "ensure", "find", "get", "intact"]
