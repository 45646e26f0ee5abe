"""Bayesian deep learning through dropout: the package behind the lessons."""
