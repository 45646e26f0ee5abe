import pytest
import torch

from bdl_lessons.datasets.rotation import rotated

IMAGES = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("quarters", [-1, 0, 1, 2])
def test_positive_angles_turn_anticlockwise(quarters):
    expected = IMAGES.rot90(quarters, (-2, -1))
    torch.testing.assert_close(rotated(IMAGES, 90 * quarters), expected, atol=1e-5, rtol=0)


def test_each_image_may_have_an_angle_of_its_own():
    angles = torch.tensor([10.0, -25.0, 160.0])
    together = rotated(IMAGES[:, 0], angles)
    for image, angle, turned in zip(IMAGES[:, 0], angles, together, strict=True):
        torch.testing.assert_close(turned, rotated(image, float(angle)))


def test_an_image_that_is_not_square_is_refused():
    with pytest.raises(ValueError, match=r"square .* got \(3, 4, 5\)"):
        rotated(torch.zeros(3, 4, 5), 30)
