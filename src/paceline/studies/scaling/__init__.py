"""`paceline explain`: where the time goes when more devices do not help.

It runs a cell's ablations in rounds and takes their times apart. The speed-up that every table has is not worked out
here but in `analysis.rows.scaling`.
"""
