"""This machine and its files: errors, limits, paths, locks, processes, and what the machine is.

It knows nothing of frameworks, cells or results, and imports no other room.
"""
