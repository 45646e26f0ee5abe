"""Panels in pages without a kernel: recorded as vector drawings in Python, played back there.

``scene`` draws a panel at one setting as text, ``recording`` collects all settings, ``store``
keeps what was recorded, ``page`` writes the HTML; ``static`` has the player and its style.
"""
