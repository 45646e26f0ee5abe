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
