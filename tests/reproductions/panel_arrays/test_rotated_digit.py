from bdl_lessons.panels import arrays
from reproductions.panel_arrays import rotated_digit


def test_arrays_have_the_layout_that_is_stored(monkeypatch):
    monkeypatch.setattr(rotated_digit, "RATES", (0.5,))
    made, stored = rotated_digit.make_arrays(n_steps=2), arrays.load("rotated_digit")
    assert made["weights"].shape == stored["weights"].shape
    assert made["logits"].shape[1:] == stored["logits"].shape[1:]
    for name in ("entropy", "information"):
        assert made[name].shape[1:] == stored[name].shape[1:]
