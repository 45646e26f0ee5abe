"""Data sets of the papers that no lesson loads: found on this machine or downloaded.

``load`` gives the images in ``images.SETS`` by name, ``uci`` the regression sets in ``UCI_SETS``;
every failure is a ``DatasetError`` that names the remedy. A file whose hash is right is the
official one, and its layout is not checked again.
"""

from reproductions.datasets.files import DatasetError
from reproductions.datasets.images import CAFFE_SCALE, load
from reproductions.datasets.regression import splits, uci
