"""Chainer."""
