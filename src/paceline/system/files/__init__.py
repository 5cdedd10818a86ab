"""Files that are read safely and written whole.

No format of ours is known here.
"""
