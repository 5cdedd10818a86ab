"""Keras 2.2 on MXNet."""
