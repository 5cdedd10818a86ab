"""How sure a number is: medians, intervals, tests.

Pure functions of numbers; they know nothing about runs or cells.
"""
