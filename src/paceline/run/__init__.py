"""Carries a plan out: starts workers, watches them, ends them, and judges how each run ended.

It writes records and nothing else; numbers are derived later, in `analysis`.
"""
