"""Text that is safe to show: numbers, durations, foreign names, secrets.

Nothing here knows where the text comes from.
"""
