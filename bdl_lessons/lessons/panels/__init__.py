"""The panels of the lessons, one module each, and ``arrays``, which reads what was trained."""
