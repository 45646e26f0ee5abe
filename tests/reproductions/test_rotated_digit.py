import torch

from reproductions import rotated_digit


def test_positive_angles_turn_clockwise():
    config = {"step_degrees": 90}
    images = torch.arange(2 * 16.0).view(2, 1, 4, 4)
    turned = rotated_digit.turned(images, config)
    for angle, found in zip(rotated_digit.angles(config), turned, strict=True):
        expected = images.rot90(-angle // 90, (2, 3))
        torch.testing.assert_close(found, expected, atol=1e-3, rtol=0)


def test_the_prior_is_the_published_weight_decay():
    config = {"p_drop": 0.5, "weight_decay": 5e-4, "n_train": 600}
    net = rotated_digit.make_network(config, torch.Generator().manual_seed(0))
    (net.kl() / config["n_train"]).backward()
    for layer in (net[0], net[-1]):
        torch.testing.assert_close(layer.weight.grad, 5e-4 * layer.weight.detach())


def test_sequences_run_from_upright_in_their_direction():
    record = {"arrays": {"angles": rotated_digit.angles({"step_degrees": 10})}}
    record["arrays"]["classes"] = [[angle, -angle] for angle in record["arrays"]["angles"]]
    there, back = list(range(0, 120, 10)), list(range(0, -120, -10))
    assert rotated_digit.sequences(record).tolist() == [[there, back], [back, there]]
