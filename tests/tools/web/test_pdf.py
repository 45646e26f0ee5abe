"""What is done to a PDF after it was printed, on PDFs that are made here."""

import pytest
from pypdf import PdfReader, PdfWriter
from pypdf.annotations import Link

from bdl_lessons.exercises.grader import of_lesson
from tools import notebook
from tools.web import page, pdf


def with_links(path, *addresses):
    """A PDF of one page with a link to each address."""
    writer = PdfWriter()
    writer.add_blank_page(width=300, height=300)
    for number, address in enumerate(addresses):
        rectangle = (0, 20 * number, 10, 20 * number + 10)
        writer.add_annotation(0, Link(rect=rectangle, url=address))
    writer.write(str(path))
    return path


def links(path):
    annotations = PdfReader(path).pages[0].get("/Annots", [])
    return [annotation.get_object() for annotation in annotations]


def test_links_to_pages_lead_to_files_beside_and_no_link_names_this_machine(tmp_path):
    source = with_links(
        tmp_path / "a.pdf",
        "file:///somewhere/site/lessons/05_monte_carlo_dropout.html#x",
        "file:///somewhere/site/results/index.html",
        "file:///somewhere/site/slides/05_monte_carlo_dropout_slides.html",
        "https://arxiv.org/abs/1506.02142",
    )
    stems = {"05_monte_carlo_dropout", "results"}
    lesson, results, paper = links(pdf._link_files(source, stems, tmp_path / "b.pdf"))
    assert lesson["/A"]["/F"] == "05_monte_carlo_dropout.pdf"
    assert results["/A"]["/F"] == "results.pdf"
    assert paper["/A"]["/URI"] == "https://arxiv.org/abs/1506.02142"
    assert b"/somewhere" not in (tmp_path / "b.pdf").read_bytes()


def test_in_the_whole_course_links_lead_to_the_first_page_of_a_part(tmp_path):
    cover = with_links(tmp_path / "cover.pdf", "file:///x/lessons/02_b.html")
    parts = []
    for stem, target in (("01_a", "02_b"), ("02_b", "01_a")):
        path = with_links(tmp_path / f"{stem}.pdf", f"file:///x/lessons/{target}.html")
        parts.append(pdf.Printed(stem=stem, title=stem.upper(), path=path))
    bound = pdf._bind(cover, parts, tmp_path / "course.pdf")
    reader = PdfReader(bound)
    assert [item.title for item in reader.outline] == ["01_A", "02_B"]
    for number, target in ((0, 2), (1, 2), (2, 1)):
        (link,) = reader.pages[number]["/Annots"]
        place, _ = link.get_object()["/Dest"]
        assert place.get_object() == reader.pages[target]


def test_solutions_are_those_that_a_learner_sees():
    solutions = dict(pdf._solutions("13"))
    first, *_ = of_lesson("13")
    code = solutions[f"13.1 · {first.title}"]
    assert code.startswith("def ")
    assert "->" not in code


def test_a_page_gets_its_links_once(tmp_path):
    html = tmp_path / "lessons" / "01_a.html"
    html.parent.mkdir()
    html.write_text(f"<p>slides{page.PLACE_OF_PDF}</p>")
    links = {"PDF": tmp_path / "pdf" / "01_a.pdf", "slides": tmp_path / "pdf" / "01_a b.pdf"}
    for _ in range(2):
        pdf._link_from(html, links, before=" · ")
    expected = (
        '<p>slides<span class="on-paper"> · <a href="../pdf/01_a.pdf">PDF</a>'
        ' · <a href="../pdf/01_a%20b.pdf">slides</a></span></p>'
    )
    assert html.read_text() == expected


def test_a_site_without_the_lesson_is_refused(tmp_path):
    with pytest.raises(ValueError, match="has no lesson 13: make site writes it"):
        list(pdf.write(tmp_path, tmp_path / "pdf", ["13"]))
    with pytest.raises(ValueError, match="run `make site` first"):
        list(pdf.write(tmp_path, tmp_path / "pdf"))


def test_parts_of_the_course_stand_in_their_order(tmp_path):
    (tmp_path / "lessons").mkdir()
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "index.html").write_text("")
    (tmp_path / "references.html").write_text("")
    for path in notebook.paths(["15", "01"]):
        (tmp_path / "lessons" / f"{path.stem}.html").write_text("")
    pages = pdf._pages(tmp_path, None)
    stems = [pdf._stem(path) for path in pages]
    assert [stem[:2] for stem in stems[:2]] == ["01", "15"]
    assert "$" not in "".join(pages.values()), "a bookmark shows no formulas"
    assert stems[2:] == ["results", "references"]
