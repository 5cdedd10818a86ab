"""The report as one HTML page that can be mailed.

It shows the columns of `report.tables` and the charts of `report.charts`, and has none of its own. A page never asks a
server for anything; the server fills the same templates.
"""
