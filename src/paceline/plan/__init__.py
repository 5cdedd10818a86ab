"""From what the user asks to cells and runs: what will be measured, in which order, and what cannot be and why.

It starts nothing and reads no results.
"""
