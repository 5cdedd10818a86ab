"""Keras 3 on TensorFlow."""
