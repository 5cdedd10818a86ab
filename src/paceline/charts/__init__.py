"""Charts of the rows of tables, for the page and for papers, from the same specifications."""

from paceline.charts.drawing import Figure, figures
from paceline.charts.kinds import KINDS, Kind, pictures
from paceline.series import Series, load_series

__all__ = ["KINDS", "Figure", "Kind", "Series", "figures", "load_series", "pictures"]
