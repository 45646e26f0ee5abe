from bdl_lessons.datasets import UCI_SETS, display_name, published_table


def test_the_published_sets_have_the_names_that_the_papers_print():
    for table in ("uci_rmse", "uci_log_likelihood"):
        printed = {row["dataset"] for row in published_table(table)}
        assert printed <= {one.display_name for one in UCI_SETS.values()}


def test_a_record_is_found_by_its_name_and_no_two_share_one():
    assert all(name == one.name for name, one in UCI_SETS.items())
    names = [one.display_name for one in UCI_SETS.values()]
    assert len({*names}) == len(names) == len({one.sha256 for one in UCI_SETS.values()})
    assert display_name("naval-propulsion-plant") == "Naval"
