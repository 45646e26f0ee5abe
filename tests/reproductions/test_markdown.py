from reproductions import markdown


def test_a_table_has_a_rule_under_its_head():
    assert markdown.table(["a", "b"], [["1", "2"], ["3", "4"]]).splitlines() == [
        "| a | b |",
        "| --- | --- |",
        "| 1 | 2 |",
        "| 3 | 4 |",
    ]


def test_names_are_listed_with_commas():
    assert markdown.listed(["a", "b"]) == "a, b"
    assert markdown.listed([]) == "none of them"
