from tools.web import sphinx_pages
from tools.web.sphinx_pages import table_headers


def table(head, *rows):
    cells = "".join(f'<th class="head"><p>{text}</p></th>\n' for text in head)
    body = "".join(f"<tr>{''.join(f'<td><p>{t}</p></td>' for t in row)}</tr>\n" for row in rows)
    return (
        f'<table class="table">\n<thead>\n<tr>{cells}</tr></thead>\n<tbody>{body}</tbody></table>'
    )


def test_headers_name_columns_or_rows_and_an_empty_corner_is_a_cell():
    html = table_headers(table(["", "RMSE"], ["net", "0.1 ± 0.2"]))
    assert '<tr><td></td>\n<th scope="col" class="head"><p>RMSE</p></th>' in html
    assert "<td><p>net</p></td><td><p>0.1\u00a0±\u00a00.2</p></td>" in html
    html = table_headers(table(["", ""], ["Needs", "01"], ["Minutes", "48"]))
    assert "thead" not in html
    for name, value in (("Needs", "01"), ("Minutes", "48")):
        assert f'<th scope="row"><p>{name}</p></th><td><p>{value}</p></td>' in html


def test_formulas_of_docstrings():
    lines = ["The mass $2^N$ of", "``$HOME`` and", "$$a &= b \\\\", "  &= c$$", "$x", "+ y$ end"]
    sphinx_pages._formulas(None, "module", "m", None, None, lines)
    text = "\n".join(lines)
    assert "The mass :math:`2^N` of\n``$HOME`` and" in text
    assert "\n\n.. math::\n\n    a &= b \\\\\n    &= c\n\n" in text
    assert ":math:`x + y` end" in text


def test_a_formula_is_readable_without_scripts():
    html = sphinx_pages._formula("div", r"a < \lVert b \rVert")
    assert html.startswith('<div class="math" tabindex="0" data-tex="a &lt; \\lVert b \\rVert">')
    assert "<mi>b</mi>" in html
    assert "lVert" not in html.partition("<math")[2]
