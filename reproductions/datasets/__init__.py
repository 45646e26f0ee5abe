"""Data sets of the papers that no lesson loads: found on this machine or downloaded.

==================  ==========================================
images: ``load``    content
==================  ==========================================
mnist               60000 + 10000 digits, 28×28
fashion-mnist       60000 + 10000 articles of clothing, 28×28
notmnist-small      10000 letters, test part only, 28×28
cifar10             50000 + 10000 colour images, 32×32
cifar100            50000 + 10000 colour images, 32×32
cifar10-subset      4000 + 1000, exact pixels
cifar10-jpeg        50000 + 10000, lossy pixels
svhn                73257 + 26032 house-number digits, 32×32
stl10               5000 + 8000 colour images, 96×96
==================  ==========================================

``uci`` loads the UCI regression sets (``UCI_SETS``). A file is looked for in ``BDL_DATA_DIR``, in
``data/``, in the user's cache, and then downloaded; every failure is a ``DatasetError`` that names
the remedy. A file whose hash is right is the official one, and its layout is not checked again.
"""

from reproductions.datasets.files import DatasetError
from reproductions.datasets.images import CAFFE_SCALE, load
from reproductions.datasets.regression import splits, uci
