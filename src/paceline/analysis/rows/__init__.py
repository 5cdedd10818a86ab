"""The rows of a table: each cell with what its runs came to.

A row is a plain value; how it looks is up to `report`.
"""
