"""The index: an SQLite file made from the records, and the rows that go into it.

Nothing here is the only copy of anything; `paceline index` rebuilds it.
"""
