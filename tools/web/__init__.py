"""Panels on pages without a kernel: drawn by `scene`, kept by `store`, played by `static`."""
