"""The graph in plain NumPy and float64: the judge of what the frameworks compute, not a contestant."""
