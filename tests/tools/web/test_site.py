import re

import pytest

import reproductions
from bdl_lessons.core.files import NOTEBOOKS
from bdl_lessons.course.lesson_record import lesson_records
from tools import notebook
from tools.web import site


@pytest.fixture
def sphinx_arguments(tmp_path, monkeypatch):
    """What was handed to Sphinx in each build; Sphinx itself is left out."""
    of_builds = []

    def build_main(arguments):
        of_builds.append({*arguments})
        (tmp_path / "site" / "_sources" / "lessons").mkdir(parents=True, exist_ok=True)
        return 0

    monkeypatch.setattr("sphinx.cmd.build.build_main", build_main)
    return of_builds


@pytest.fixture
def sources(tmp_path, sphinx_arguments):
    """The sources of a site with lesson 00 alone."""
    page = site.build(tmp_path / "site", ["00"], tmp_path / "source")
    assert page == tmp_path / "site" / "index.html"
    return tmp_path / "source"


def test_a_lesson_and_the_front_page_have_live_panels(sources):
    lesson = (sources / "lessons" / "00_start_here.ipynb").read_text()
    front_page = (sources / "index.md").read_text()
    for text, address in (
        (lesson, "../_static/panels/many-networks"),
        (front_page, "_static/panels/many-networks"),
    ):
        sources_of_panels = re.findall(r'data-src=\\?"([^"\\]*)', text)
        assert sources_of_panels == [f"{address}.js"]
        assert "alt=" in text
    for name in ("player.js", "player.css", "many-networks.js", "many-networks.png"):
        assert (sources / "_static" / "panels" / name).stat().st_size > 0


def test_what_the_front_page_names_exists_and_the_download_is_the_notebook(sources):
    copied = sources.parent / "site" / "_sources" / "lessons" / "00_start_here.ipynb"
    assert copied.read_bytes() == (NOTEBOOKS / copied.name).read_bytes()
    text = (sources / "index.md").read_text()
    assert not re.search("@[A-Z]+@", text)
    for block in re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL):
        for line in block.splitlines():
            if line and not line.startswith(":"):
                assert list(sources.glob(f"{line}.*")), line
    of_probability = (sources / "package" / "probability.rst").read_text()
    assert "bdl_lessons.probability.kl\n" in of_probability


def test_lessons_of_the_last_time_go_and_links_to_the_results_stay_inside(sources):
    player = sources / "_static" / "panels" / "player.js"
    before = player.stat().st_mtime_ns
    site.build(sources.parent / "site", ["07"], sources)
    assert player.stat().st_mtime_ns == before, "what has not changed is left alone"
    (lesson,) = (sources / "lessons").iterdir()
    assert lesson.name.startswith("07")
    assert "](../results/index.md)" in lesson.read_text()
    assert "data/results/README.md" not in lesson.read_text()


def test_a_figure_without_a_sentence_fails_the_build_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(site.pictures, "describe", lambda lesson: ["00-9"])
    with pytest.raises(ValueError, match=r"00_start_here.ipynb: no sentence under .* 00-9"):
        site.build(tmp_path / "site", ["00"], tmp_path / "source")


def test_after_a_build_that_failed_every_page_is_written_again(
    sources, sphinx_arguments, monkeypatch
):
    with monkeypatch.context() as failing:
        failing.setattr("sphinx.cmd.build.build_main", lambda arguments: 2)
        with pytest.raises(ValueError, match="Sphinx could not build the site"):
            site.build(sources.parent / "site", ["00"], sources)
    for _ in range(2):
        site.build(sources.parent / "site", ["00"], sources)
    writes_all = [{"-E", "-a"} <= arguments for arguments in sphinx_arguments]
    assert writes_all == [False, True, False]


def test_the_map_links_the_lessons_that_the_site_has():
    lessons = [path for path in notebook.paths() if not path.name.startswith("03")]
    text = site.front_page(lessons, ["core"])
    tiles = dict(re.findall(r'<b>(?:<a href="(.*?)">)?\d\d ([^<]*)', text))
    titles = {record.short_title for record in lesson_records().values() if record.map}
    assert titles <= {*tiles.values()}
    linked = {address for address in tiles if address}
    on_the_map = [path for path in lessons if path.name[:2] not in {"00", "90"}]
    assert linked == {f"lessons/{path.stem}.html" for path in on_the_map}
    assert "after 03, 04 and 05" in text
    assert "after 05 and 06<" in text, "07 and 11 are useful, not required"
    assert "make lab" in re.search(r"```\n(make .*?)```", text, re.S)[1]


def test_routes_link_the_lessons_that_the_site_has():
    lessons = [path for path in notebook.paths() if not path.name.startswith("03")]
    text = site.front_page(lessons, ["core"])
    (theory,) = re.findall(r"^\| \*\*theory half.*$", text, re.M)
    assert "[02](lessons/02_evidence_lower_bound.ipynb) · 03 · [04](lessons/04_" in theory
    assert re.search(r"\d h of lectures|\d min of lectures", theory)


def test_pages_to_look_things_up_link_the_lessons_that_the_site_has(sources):
    site.build(sources.parent / "site", ["02", "05"], sources)
    page = (sources / "references.md").read_text()
    (line,) = [line for line in page.splitlines() if "*Auto-encoding variational Bayes*" in line]
    assert line.endswith("Lessons [02](lessons/02_evidence_lower_bound.ipynb), 06.")
    front_page = (sources / "index.md").read_text()
    for name in ("terms", "references", *(sheet.name for sheet in site.formulas.SHEETS)):
        assert (sources / f"{name}.md").exists()
        assert f'href="{name}.html"' in front_page


def test_results_are_an_index_and_a_page_for_each_experiment(sources):
    index = (sources / "results" / "index.md").read_text()
    for name in reproductions.PLACES:
        assert f"\n{name}\n" in index
        page = (sources / "results" / f"{name}.md").read_text()
        for picture in re.findall(r"!\[.*\]\((.*)\)", page):
            assert (sources / "results" / picture).exists()
