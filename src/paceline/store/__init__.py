"""Results: one folder per run, which is the record, and an index over them that can always be rebuilt.

It defines what is written and reads it back. It draws no conclusions and starts nothing.
"""
