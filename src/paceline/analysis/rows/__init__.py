"""The rows of a table: each cell with what its runs came to.

A row is a plain value; `report` decides how it looks.
"""
