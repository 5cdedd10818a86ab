"""Results tables, logs and claims from Markdown and CSV files, as rows of figures.

Reading only: what is wrong with a figure is decided in `rules`.
"""
