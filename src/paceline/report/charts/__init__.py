"""Charts of the rows of tables, for the page and for papers: the same pictures.

A chart draws rows and the series of their runs, summed up by medians and quartiles; intervals belong to `analysis`, and
where a chart stands on the page to `page`.
"""

from paceline.report.charts.drawing import Figure, figures
from paceline.report.charts.kinds import KINDS, ChartKind, kinds, pictures
from paceline.store.series import Series, load_series

__all__ = ["KINDS", "ChartKind", "Figure", "Series", "figures", "kinds", "load_series", "pictures"]
