"""One bibliography: what lessons cite stands in it once, and is rendered from it everywhere."""

import re

import pytest
from nbformat import v4 as new

from bdl_lessons.core.files import ROOT
from bdl_lessons.course.lesson_record import Reference, lesson_records
from tools import guards, metadata, notebook, references

ARXIV = re.compile(r"\d{4}\.\d{4,5}")
DOI = re.compile(r"10\.\d{4,9}/\S*[^\s.,)]")


def lesson_with(*sources):
    """A notebook of these texts whose last cell is that of the references."""
    cells = [new.new_markdown_cell(source, id=f"05-{k}") for k, source in enumerate(sources)]
    cells.append(new.new_markdown_cell("", metadata={"tags": ["references"]}))
    return new.new_notebook(cells=cells)


def citations(source):
    (path,) = notebook.paths(["05"])
    return list(guards.citations(lesson_with(source), path))


def test_each_key_that_a_lesson_cites_has_an_entry_and_each_entry_a_use():
    cited = set()
    for record in lesson_records().values():
        keys = [reference.cite for reference in record.references]
        assert len(keys) == len(set(keys)), record.stem
        cited.update(keys)
    entries = references.bibliography()
    assert cited <= entries.keys()
    further = {entry.key for entry in entries.values() if entry.further}
    assert entries.keys() - cited == further


@pytest.mark.parametrize("entry", references.bibliography().values(), ids=lambda entry: entry.key)
def test_the_parts_of_an_entry_are_well_formed(entry):
    assert all(re.fullmatch(r"(?:\S+\. )+\S.*[^.]", name) for name in entry.authors)
    name, *rest = entry.key.split("-")
    assert name == references.plain_surname(entry.authors[0])
    assert rest[:1] == ([] if entry.year is None else [str(entry.year)])
    assert not entry.arxiv or ARXIV.fullmatch(entry.arxiv)
    assert not entry.doi or DOI.fullmatch(entry.doi)
    assert not entry.url or not (entry.doi or entry.arxiv)
    assert all(re.fullmatch(r"https?://[^\s)]+", target) for _, target in entry.links)


def test_no_paper_stands_twice():
    entries = references.bibliography().values()
    for name in ("title", "doi", "arxiv", "url"):
        values = [getattr(entry, name) for entry in entries if getattr(entry, name)]
        assert len(values) == len(set(values)), name


def test_every_lesson_renders_its_references():
    for lesson in metadata.lessons():
        if lesson.is_index or not lesson.record.references:
            continue
        assert len(lesson.cells("references")) == 1, lesson.path.name


def test_what_a_lesson_takes_and_what_follows_is_rendered():
    record = lesson_records()["answer_abstain_or_ask"]
    text = references.cell(record)
    assert "- C. K. Chow, *On optimum recognition error and reject tradeoff*, " in text
    assert (
        "[doi:10.1109/TIT.1970.1054406](https://doi.org/10.1109/TIT.1970.1054406): our (1)" in text
    )
    assert text.endswith(record.after_references), "nothing follows the last lesson"
    text = references.cell(lesson_records()["monte_carlo_dropout"])
    assert text.endswith("Next: [06 Local reparameterization](06_local_reparameterization.ipynb).")


def test_an_unknown_key_and_an_unknown_field_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"no entry 'nobody-1999' in docs.references\.toml"):
        references.entry_of("nobody-1999")
    path = tmp_path / "references.toml"
    path.write_text('[gal-2016]\nauthors = ["Y. Gal"]\ntitle = "x"\nvenue = "y"\ndio = "z"\n')
    with pytest.raises(ValueError, match=r"references.toml: gal-2016: .*dio.*; other entries"):
        references.bibliography(path)


def test_the_page_has_every_entry_and_the_lessons_that_cite_it():
    page = references.page("there/")
    lines = [line for line in page.splitlines() if line.startswith("- ")]
    assert len(lines) == len(references.bibliography())
    (line,) = [line for line in lines if "*Dropout as a Bayesian approximation: repr" in line]
    numbers = {record.number for record in lesson_records().values() if cites(record, "gal-2016")}
    assert set(re.findall(r"\[(\d\d)\]\(there/\1_\w+\.ipynb\)", line)) == numbers
    entries = references.bibliography().values()
    names = [references.plain_surname(entry.authors[0]) for entry in entries]
    assert names == sorted(names)


def cites(record, key):
    return key in [reference.cite for reference in record.references]


@pytest.mark.parametrize(
    "words",
    [
        "Gal and Ghahramani (2016) say so.",
        "so (Gal and Ghahramani 2016, section 3)",
        "so (Foong et al. 2020)",
        "Gal, Hron and Kendall (2017) say so.",
        "so (Gal et al. 2017)",
        "so (Osband 2016).",
    ],
)
def test_a_citation_without_a_link_is_named(words):
    (problem,) = citations(words)
    assert "is cited without a link; it is at http" in problem


@pytest.mark.parametrize(
    "words",
    [
        "[Gal and Ghahramani (2016)](https://arxiv.org/abs/1506.02142) say so.",
        "Gal and Ghahramani say so, in 2016.",
        r"$$\text{Foong et al. 2020:} \quad x$$",
        "A. Racine and so on (Racine et al. 1986), which has no address",
        "so (Nobody 1999)",
    ],
)
def test_a_citation_with_its_link_or_without_an_entry_is_none(words):
    assert citations(words) == []


def test_a_link_to_a_paper_is_one_of_the_bibliography():
    (problem,) = citations("[so](https://arxiv.org/abs/0000.00000)")
    assert "0000.00000 is no address of docs/references.toml" in problem
    assert citations("[code](https://github.com/yaringal/DropoutUncertaintyExps)") == []


def test_a_reference_of_a_record_has_a_key_and_what_is_taken():
    references_of_02 = lesson_records()["evidence_lower_bound"].references
    assert (
        Reference(cite="mackay-1992", takes="the evidence as a judge of priors") in references_of_02
    )
    assert (ROOT / "docs" / "references.md").exists()
