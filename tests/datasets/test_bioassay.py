from bdl_lessons.datasets import bioassay


def test_one_row_per_animal_adds_up_to_the_table():
    X, y = bioassay.load()
    assert X.shape == (20, 2)
    assert y.shape == (20,)
    assert (X[:, 0] == 1).all()
    for dose, deaths in zip(bioassay.LOG_DOSE, bioassay.DEATHS, strict=True):
        at_dose = X[:, 1] == dose
        assert at_dose.sum() == 5
        assert y[at_dose].sum() == deaths
