"""Results tables, logs and claims from Markdown and CSV files, as rows of figures.

Reading only: nothing here knows what is wrong with a figure; `rules` do.
"""
