"""Two sets of results, cell by cell: better, worse, or no verdict, and everything else that differs.

Which runs belong to a side is decided here; how the answer is printed is not.
"""
