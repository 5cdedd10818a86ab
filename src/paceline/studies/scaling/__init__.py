"""`paceline explain`: where the time goes when more devices do not help.

It runs a cell's ablations in rounds and takes their times apart. General speed-ups are in `analysis.rows.scaling`.
"""
