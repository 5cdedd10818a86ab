"""What must be true of a results table: each rule names the figures that it would contradict.

Rules see rows of figures; where these come from is up to `text` and `published`.
"""
