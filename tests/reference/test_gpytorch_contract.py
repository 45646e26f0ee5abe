"""The kernels keep the contract of GPyTorch's own kernels: its test case runs on one of them."""

import unittest

from gpytorch.test.base_kernel_test_case import BaseKernelTestCase

from bdl_lessons.reference import ReLUKernel


class TestReLU(BaseKernelTestCase, unittest.TestCase):
    def create_kernel_no_ard(self, **options):
        return ReLUKernel(2, **options)
