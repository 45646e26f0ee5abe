"""The panels of the lessons, one module each: a scene, its controls and its precomputed arrays."""
