"""From stored runs to statements: rows with their uncertainty, findings, comparisons.

It reads the store and never starts anything. No text for people beyond the names of cells.
"""
