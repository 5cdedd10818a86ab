"""Charts of the rows of tables, for the page and for papers, from the same specifications.

A chart draws rows and the series of their runs, summed up by medians and quartiles; intervals belong to `analysis`, and
where a chart stands on the page to `page`.
"""

from paceline.report.charts.drawing import PENCIL, Figure, figures, start_drawing
from paceline.report.charts.kinds import KINDS, ChartKind, pictures
from paceline.store.series import Series, load_series

__all__ = ["KINDS", "PENCIL", "ChartKind", "Figure", "Series", "figures", "load_series", "pictures", "start_drawing"]
