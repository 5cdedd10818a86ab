"""Tensorpack."""
