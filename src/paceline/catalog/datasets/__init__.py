"""Data sets: fetched, checked and prepared once, then read by every worker from the same files.

How a worker cuts batches out of them belongs to `paceline_worker.input`; their table for people to `report`.
"""

from paceline.catalog.datasets.fetching import ensure, get
from paceline.catalog.datasets.known import KNOWN
from paceline.catalog.datasets.prepared import PreparedDataset, find, intact

__all__ = ["KNOWN", "PreparedDataset", "ensure", "find", "get", "intact"]
