"""Bayesian deep learning through dropout: the package behind the lessons."""

import warnings

# Of PyTorch 2.15 about itself and about GPyTorch: nothing that a reader could change.
warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", FutureWarning)
