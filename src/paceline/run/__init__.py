"""Carries a plan out: starts workers, watches them, ends them, and judges how each run ended.

It writes records and prints no result. How sure a number is belongs to `analysis`, which is asked whether a plan needs
another round.
"""
