import pytest
import torch

from bdl_lessons.core.plot_style import new_figure
from bdl_lessons.evaluation import reliability_bins
from bdl_lessons.lessons.panels import lesson05_figures as figures
from bdl_lessons.lessons.panels import mc_dropout_co2


def test_months_are_those_of_the_series():
    axis = new_figure(4, 3).subplots()
    figures.months(axis)
    seen, later, _ = axis.lines
    assert len(seen.get_xdata()) == len(mc_dropout_co2.six_years().y)
    assert min(later.get_xdata()) >= mc_dropout_co2.END > max(seen.get_xdata())


def test_each_answer_has_its_band_and_its_deviation():
    figure, years = new_figure(6, 4), torch.linspace(1976, 1984, 5)
    std = torch.arange(5.0)
    figures.four_answers(figure, years, {"a": (torch.full((5,), 340.0), std), "b": (std, std)})
    (band, _), below = figure.axes[0].collections, figure.axes[2].lines[0]
    assert band.get_datalim(figure.axes[0].transData).y1 == pytest.approx(340 + 2 * 4)
    assert below.get_ydata().tolist() == std.tolist()


def test_every_draw_of_the_three_foremost_classes_is_a_dot():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(7, 3, 10, generator=generator)
    figure = new_figure(6, 4)
    figures.turning_digit(figure, torch.tensor([0, 15, 30]), torch.rand(3, 64), logits)
    pictures, (inputs, outputs, _) = figure.axes[:3], figure.axes[3:]
    titles = [axis.get_title(loc="center") for axis in pictures]
    assert titles == [str(c) for c in logits.softmax(-1).mean(0).argmax(-1).tolist()]
    for axis, values in ((inputs, logits), (outputs, logits.softmax(-1))):
        assert [len(dots.get_offsets()) for dots in axis.collections] == [21] * 3
        label = axis.collections[0].get_label()
        shown = torch.as_tensor(axis.collections[0].get_offsets()[:, 1].data)
        expected = values[..., int(label.split()[-1])].ravel().double()
        torch.testing.assert_close(shown.double(), expected)


def test_scores_are_means_over_seeds():
    axis = new_figure(3, 3).subplots()
    figures.over_rates(axis, (0.1, 0.5), {"MC, T = 5": torch.tensor([[1.0, 3.0], [4.0, 4.0]])})
    assert axis.lines[0].get_ydata().tolist() == [2.0, 4.0]


def test_bins_with_few_predictions_are_left_out():
    probs = torch.tensor([[0.9, 0.1]] * 30 + [[0.55, 0.45]] * 5)
    axis = new_figure(3, 3).subplots()
    bins = reliability_bins(probs, torch.zeros(35, dtype=torch.long), 10)
    figures.reliability(axis, {"weight scaling": bins})
    assert axis.lines[0].get_xdata().tolist() == pytest.approx([0.9])
