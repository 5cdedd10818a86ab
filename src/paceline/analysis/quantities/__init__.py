"""What is measured and how it is read: each quantity is declared here once, with its definition.

Tables, findings, answers, comparisons, replays, charts, JSON and docs/fields.md read it from here. No numbers are here.
"""
