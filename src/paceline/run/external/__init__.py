"""Measures any training command from outside: time, memory, and what its output says."""
