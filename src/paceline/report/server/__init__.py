"""`paceline serve`: the same pages over a live store.

It reads and never writes. What a browser may ask is decided in `http`.
"""
