import re

from bdl_lessons.course.lesson_map import ROWS
from tools import notebook
from tools.web import front


def test_the_map_links_the_lessons_that_the_site_has():
    lessons = [path for path in notebook.paths() if not path.name.startswith("03")]
    text = front.text(lessons, ["core"])
    tiles = dict(re.findall(r'<b>(?:<a href="(.*?)">)?\d\d ([^<]*)', text))
    titles = {title for _, _, row in ROWS for title, _ in row.values()}
    assert titles <= {*tiles.values()}
    linked = {address for address in tiles if address}
    assert linked == {f"lessons/{p.stem}.html" for p in lessons if p.name[:2] not in {"00", "90"}}
    assert "after 03, 04, 05 and 07" in text
    assert "make lab" in re.search(r"```\n(make .*?)```", text, re.S)[1]
