"""Commands that `paceline time` measures: what they are, and what is read from their output.

Running them is the business of `run.external`.
"""
