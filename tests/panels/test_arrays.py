import pytest

from bdl_lessons.panels import arrays


def test_missing_arrays_name_the_command():
    with pytest.raises(FileNotFoundError, match="python -m reproductions arrays no_such_panel"):
        arrays.load("no_such_panel")


@pytest.mark.parametrize("place", [1, -5], ids=["first header", "directory"])
def test_a_flipped_bit_is_an_error_that_names_the_file_and_the_remedy(tmp_path, monkeypatch, place):
    content = bytearray((arrays.FOLDER / "label_noise.npz").read_bytes())
    monkeypatch.setattr(arrays, "FOLDER", tmp_path)
    content[place] ^= 64
    (tmp_path / "label_noise.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"label_noise\.npz is damaged.*arrays label_noise"):
        arrays.load("label_noise")


def test_damaged_numbers_are_found(tmp_path, monkeypatch):
    stored = (arrays.FOLDER / "pruning_threshold.npz").read_bytes()
    monkeypatch.setattr(arrays, "FOLDER", tmp_path)
    name_length, extra_length = stored[26] + 256 * stored[27], stored[28] + 256 * stored[29]
    start, middle = 30 + name_length + extra_length, len(stored) // 2
    for damaged in (
        b"",
        stored[:middle],
        stored[:middle] + bytes([stored[middle] ^ 16]) + stored[middle + 1 :],  # a wrong checksum
        stored[:start] + b"\xff" + stored[start + 1 :],  # no deflate stream begins so
    ):
        (tmp_path / "pruning_threshold.npz").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"pruning_threshold\.npz is damaged"):
            arrays.load("pruning_threshold")
