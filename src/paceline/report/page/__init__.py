"""The report as one HTML page that can be mailed.

It shows the rows of `report.tables` and the charts of `report.charts`; the server fills the same templates.
"""
