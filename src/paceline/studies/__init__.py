"""Experiments made of many runs: equivalence, scaling, replay, audit.

A study asks a question and answers it with runs and statistics. How the answer looks is up to `report`.
"""
