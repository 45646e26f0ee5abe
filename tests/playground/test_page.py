"""The playground as one file and in a notebook's cell."""

import re
from html import unescape

import pytest

from bdl_lessons.playground import page, playground


def test_the_page_needs_no_other_file_and_no_network():
    html = page()
    assert not re.search(r"""(src|href)=["'](?!#)""", html)
    assert not re.search(r"https?:|@import|fetch\(|import\(", html)
    assert html.count("<script>") == html.count("</script>") == 8


def test_every_file_of_the_page_is_in_it():
    for name in ("class Network", "READY_SETS", "drawPlot", "INVITATIONS", "--map-low"):
        assert name in page()


def test_a_cell_has_the_page_in_a_frame_of_its_own():
    shown = playground(height=500, method="ensemble")._repr_html_()
    assert "height: 500px" in shown
    (content,) = re.findall(r'srcdoc="([^"]*)"', shown)
    assert unescape(content) == page(method="ensemble")


def test_an_unknown_setting_is_refused_by_name():
    with pytest.raises(ValueError, match=r"no setting 'p_dropp'; it has .*p_drop"):
        playground(p_dropp=0.5)
