import pandas as pd
import pytest
import torch
from sklearn.preprocessing import StandardScaler

from bdl_lessons.datasets import Standardiser
from tests.draws import normal, seeded
from tests.tables import close, refused


def test_standardiser_has_mean_0_std_1_and_an_inverse():
    x = normal(40, 3) * 5 + 100
    scale = Standardiser.fit(x)
    z = scale.transform(x)
    close(z.mean(0), [0, 0, 0])
    close(z.square().mean(0), [1, 1, 1])
    torch.testing.assert_close(scale.inverse_transform(z), x)
    assert scale.transform(torch.zeros(7, 4, 3)).shape == (7, 4, 3)


@pytest.mark.parametrize("constant", [0.998, 288.0, 0.0, -1e9])
def test_constant_columns_become_zero_even_where_rounding_leaves_a_deviation(constant):
    x = torch.stack([torch.full((10741,), constant), torch.arange(10741.0)], 1).double()
    x[:, 0] = constant
    scale = Standardiser.fit(x)
    assert Standardiser.fit(x[:, 0]).std == 1
    assert scale.std[0] == 1
    assert scale.transform(x)[:, 0].abs().max() < 1e-6 * max(1, abs(constant))


TENTH = 0.1 * torch.arange(1, 1001, dtype=torch.float64) / torch.arange(1, 1001)
SHARES = torch.rand(500, 3, generator=seeded())


@pytest.mark.parametrize(
    "column",
    [TENTH, (SHARES / SHARES.sum(1, keepdim=True)).sum(1)],
    ids=["a tenth", "sums of shares in float32"],
)
def test_what_varies_by_rounding_alone_is_constant(column):
    assert column.std() > 0
    assert Standardiser.fit(column).std == 1


def test_constant_is_what_scikit_learn_takes_for_constant():
    deviations = 10.0 ** torch.arange(-17, -9, dtype=torch.float64)
    x = 5 + deviations * normal(100, 8)
    by_scikit_learn = StandardScaler().fit(x.numpy()).scale_
    torch.testing.assert_close(Standardiser.fit(x).std, torch.from_numpy(by_scikit_learn))
    assert (by_scikit_learn == 1).sum() in range(2, 7)


@pytest.mark.parametrize("centre", [1e3, 1.7e9])
def test_a_column_far_from_zero_is_not_constant(centre):
    minutes = centre + 60 * torch.arange(1000, dtype=torch.float64)
    z = Standardiser.fit(minutes).transform(minutes).float()
    torch.testing.assert_close(z, ((torch.arange(1000) - 499.5) / (1000**2 / 12) ** 0.5).float())


def test_the_mean_of_large_numbers_does_not_overflow():
    x = 1e36 * torch.linspace(1, 2, 1000)[:, None]
    scale = Standardiser.fit(x)
    assert scale.mean.item() == pytest.approx(1.5e36, rel=1e-5)
    assert scale.transform(x).square().mean().item() == pytest.approx(1, rel=1e-4)


def test_half_precision_is_standardised_in_single():
    x = 300 + normal(2000, 2)
    scale = Standardiser.fit(x.bfloat16())
    assert scale.mean.dtype == scale.std.dtype == torch.float32
    torch.testing.assert_close(scale.mean.double(), x.bfloat16().double().mean(0))


def test_the_scales_of_several_splits_broadcast_over_their_examples():
    x = normal(2, 7)
    scales = [Standardiser.fit(row) for row in x]
    mean = torch.stack([scale.mean for scale in scales])[:, None]
    std = torch.stack([scale.std for scale in scales])[:, None]
    z = Standardiser(mean, std).transform(x)
    close(z[1], scales[1].transform(x[1]))


TABLE = pd.DataFrame(
    {
        "age": [30, 41, 64],
        "income": [1.5, 2.5, 4.5],
        "visits": pd.array([1, None, 3], dtype="Int64"),
        "town": ["Bonn", "Jena", "Bonn"],
        "first": pd.to_datetime(["2020-01-01", "2021-01-01", "2022-01-01"]),
    }
)


def test_arrays_and_data_frames_become_tensors_in_double():
    columns = ["age", "income"]
    expected = torch.tensor([[30, 1.5], [41, 2.5], [64, 4.5]], dtype=torch.float64)
    by_tensor = Standardiser.fit(expected)
    float32 = TABLE[columns].to_numpy(dtype="float32")
    for table in (TABLE[columns], TABLE[columns].to_numpy(), float32, expected.int().numpy() * 0.5):
        scale = Standardiser.fit(table)
        z = scale.transform(table)
        assert scale.mean.dtype == z.dtype == torch.float64
        close(z.mean(0), [0, 0])
    frame = Standardiser.fit(TABLE[columns])
    close(frame.mean, by_tensor.mean)
    close(frame.transform(TABLE[columns]), by_tensor.transform(expected))
    close(frame.inverse_transform(frame.transform(expected).numpy()), expected)
    assert Standardiser.fit(TABLE["age"]).transform(TABLE["age"]).shape == (3,)


test_what_is_no_table_of_numbers_is_named_with_the_call_that_helps = refused(
    (lambda: Standardiser.fit(TABLE), r"x .*\['town', 'first'\].*OneHotEncoder"),
    (lambda: Standardiser.fit(TABLE["town"]), r"x .*\['town'\].*OneHotEncoder"),
    (lambda: Standardiser.fit(TABLE[["age", "visits"]]), "x .*NaN at row 1, column 1.*SimpleImp"),
    (lambda: Standardiser.fit(TABLE["visits"]), "x .*NaN at row 1: .*SimpleImputer"),
    (lambda: Standardiser.fit(TABLE.to_numpy()), r"x .*NumPy array of object: x\.astype\(float\)"),
    (
        lambda: Standardiser.fit(TABLE[["age"]]).transform(TABLE["income"]),
        r"x must end with .*\(1,\)",
    ),
    (lambda: Standardiser.fit(torch.ones(3, 2).long()), r"x .*int64.* x\.double\(\)"),
    (lambda: Standardiser.fit([1.0, 2.0]), r"x .*list.*torch\.tensor\(x\)"),
)
