"""The figure that tables share."""

from reproductions.figures import ours_and_published


def test_a_dot_stands_under_its_own_name_in_the_legend():
    ours = [("VD", 1.0, 0.0)]
    published = [("VD", 2.0, 0.0)]
    figure = ours_and_published(["VD"], {"error": (ours, published)})
    (axes,) = figure.axes
    dots = {bars.get_label(): bars.lines[0].get_xdata().tolist() for bars in axes.containers}
    assert dots == {"ours": [1.0], "published": [2.0]}
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["ours", "published"]
