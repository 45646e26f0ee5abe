"""The kernels keep the contract of GPyTorch's own kernels: its test case runs on each of them."""

import unittest
from functools import partial

import pytest
import torch
from gpytorch.test.base_kernel_test_case import BaseKernelTestCase

from bdl_lessons.reference import CosKernel, ErfKernel, ReLUKernel


class TestReLU(BaseKernelTestCase, unittest.TestCase):
    def create_kernel_no_ard(self, **options):
        return ReLUKernel(**options)


class TestDeepReLU(BaseKernelTestCase, unittest.TestCase):
    def create_kernel_no_ard(self, **options):
        return ReLUKernel(3, **options)


class TestErf(BaseKernelTestCase, unittest.TestCase):
    def create_kernel_no_ard(self, **options):
        return ErfKernel(**options)


class TestCos(BaseKernelTestCase, unittest.TestCase):
    def create_kernel_no_ard(self, **options):
        return CosKernel(**options)


@pytest.mark.parametrize("make", [ReLUKernel, partial(ReLUKernel, 3), ErfKernel, CosKernel])
def test_inputs_of_different_columns_are_refused(make):
    with pytest.raises(RuntimeError, match="x1_ and x2_ must have the same"):
        make()(torch.ones(4, 3), torch.ones(5, 2)).to_dense()
