"""Keras 3: what its frameworks share, whichever backend does the arithmetic."""
