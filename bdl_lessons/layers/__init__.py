"""Layers whose weights have a law; one posterior per module."""

from bdl_lessons.layers.binary_dropout import BernoulliNoise, BinaryDropout, binary_dropout_kl
from bdl_lessons.layers.stochastic import Sampling, StochasticLayer, check_sampling
from bdl_lessons.layers.unit_noise import UnitNoise, UnitNoiseConv2d, UnitNoiseLinear

__all__ = [
    "BernoulliNoise",
    "BinaryDropout",
    "Sampling",
    "StochasticLayer",
    "UnitNoise",
    "UnitNoiseConv2d",
    "UnitNoiseLinear",
    "binary_dropout_kl",
    "check_sampling",
]
