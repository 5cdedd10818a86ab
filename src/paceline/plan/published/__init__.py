"""The cells of the published benchmarks' rows, and the command for each.

The figures themselves are in `catalog.published`; what they are held against is up to `report`.
"""
