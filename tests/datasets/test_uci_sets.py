from bdl_lessons.datasets import UCI_SETS, display_name, published_table


def test_the_published_sets_have_the_names_that_the_papers_print():
    for table in ("uci_rmse", "uci_log_likelihood"):
        printed = {row["dataset"] for row in published_table(table)}
        assert printed <= {one.display_name for one in UCI_SETS.values()}


UNITS = {
    "bostonHousing": ("median value of homes (MEDV)", "1000 USD"),
    "concrete": ("compressive strength", "MPa"),
    "energy": ("heating load (Y1)", "kWh/m²"),
    "kin8nm": ("distance of the end effector from the target", "length, arbitrary"),
    "naval-propulsion-plant": ("compressor decay state coefficient", "1"),
    "power-plant": ("net hourly electrical energy output (PE)", "MW"),
    "wine-quality-red": ("quality", "score 0–10"),
    "yacht": ("residuary resistance per unit weight of displacement", "1"),
}


def test_every_target_has_the_unit_of_its_source():
    """Written down a second time: a lost factor, USD for 1000 USD, is no error anywhere else."""
    assert {name: (one.target, one.unit) for name, one in UCI_SETS.items()} == UNITS


def test_a_record_is_found_by_its_name_and_no_two_share_one():
    assert all(name == one.name for name, one in UCI_SETS.items())
    names = [one.display_name for one in UCI_SETS.values()]
    assert len({*names}) == len(names) == len({one.sha256 for one in UCI_SETS.values()})
    assert display_name("naval-propulsion-plant") == "Naval"
