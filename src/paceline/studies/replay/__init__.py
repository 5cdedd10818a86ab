"""`paceline replay`: runs a recorded job again, from its record and not from today's defaults.

It compares the two runs; what differs around them is named by `analysis.comparison`.
"""
