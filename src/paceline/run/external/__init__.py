"""Measures any training command from outside: time, memory, and what its output says.

What may be measured is decided in `plan.external`; nothing here knows how frameworks are started or stopped.
"""
