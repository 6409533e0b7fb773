"""Pictures: axes, plots, figures as files, and what is plotted of plans, budgets and attacks."""

import html
import itertools
import re
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

from sfumato.attacks.curves import Curve, Point
from sfumato.errors import ParameterError
from sfumato.ledger.ledger import Ledger
from sfumato.planning.planner import plan
from sfumato.privacy.guarantee import Guarantee
from sfumato.report import figures, maps, plots, svg
from sfumato.report.axes import Scale, log_range
from sfumato.report.figures import Figure
from sfumato.report.numbers import percent, relative
from sfumato.report.svg import Bars, Chosen, Key, Mark, Plot, Trace
from support.spending import made as charged
from support.spending import pure

ATTRIBUTE = Guarantee(epsilon=1.0, unit="attribute")
XS = np.array([1.0, 10.0, 100.0])
HOSTILE = '"><script>alert(1)</script>'


def shapes(markup, kind):
    """The elements of a kind in a drawing."""
    text = str(markup)
    root = ET.fromstring(text if "xmlns" in text else text.replace("<svg", "<svg xmlns='s'", 1))  # noqa: S314 - ours
    return [e for e in root.iter() if e.tag.rpartition("}")[2] == kind]


def classed(markup, name):
    return [e for e in ET.fromstring(str(markup)).iter() if name in e.get("class", "").split()]  # noqa: S314 - ours


# ---- axes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "log"),
    [
        *((1e-9, 0.3, True), (1.0, 100.0, True), (2.1, 4.9, True), (3.1, 3.2, True), (1e-30, 1e30, True)),
        *((0.0, 1.0, False), (-3.0, 0.2, False), (1e6, 1.0001e6, False)),
    ],
)
def test_an_axis_has_a_few_round_ticks_within_its_range(low, high, log):
    found = Scale(low, high, 0, 1, log).ticks()
    assert 2 <= len(found) <= 7
    room = 1e-3 * (low if log else high - low)
    assert low - room <= found[0] < found[-1] <= high + room
    assert found == sorted(found)


def test_values_lie_where_their_scale_says():
    assert Scale(1, 100, 50, 250, log=True).place([1, 10, 100]).tolist() == [50, 150, 250]
    assert Scale(0, 4, 300, 100).place([0, 1, 4]).tolist() == [300, 250, 100]
    assert np.isfinite(Scale(1, 100, 0, 1, log=True).place([0.0, -5.0])).all()


def test_the_range_of_a_logarithmic_axis_leaves_out_what_it_cannot_show():
    low, high = log_range([0.0, -1.0, np.inf, np.nan, 2.0, 8.0])
    assert 1 < low < 2
    assert 8 < high < 16
    low, high = log_range([3.0])
    assert low < 3 < high
    assert log_range([]) == (0.5, 2.0)


def test_shares_and_relative_errors_are_written_for_people():
    assert [relative(s) for s in (0.0123, 0.25, 3.5, 26.3, 4770.0)] == ["1.23%", "25%", "350%", "26x", "4,800x"]
    assert [percent(s) for s in (0.125, -0.01)] == ["12.5%", "\u22121.0%"]


# ---- plots ----------------------------------------------------------------------------------------------------------


def plotted(**facts):
    terms = {"x_name": "across", "y_name": "up", "x_range": (1, 100), "y_range": (1, 100), "log": "xy"}
    return svg.draw(Plot(**(terms | facts)), "p")


def test_a_curve_runs_through_its_points():
    plot = Plot("x", "y", traces=(Trace(XS, XS, "line"),), x_range=(1, 100), y_range=(1, 100), log="xy")
    across, up = plot.axes
    (line,) = shapes(svg.draw(plot, "p"), "polyline")
    drawn = [tuple(map(float, pair.split(","))) for pair in line.get("points").split()]
    assert drawn == [(round(float(across.place(v)), 1), round(float(up.place(v)), 1)) for v in XS]
    assert line.get("class") == "curve c0"


def test_what_has_no_place_is_left_out_and_what_is_far_is_cut_off():
    ys = np.array([np.nan, np.inf, 1e300])
    (line,) = shapes(plotted(traces=(Trace(XS, ys, ""),)), "polyline")
    assert len(line.get("points").split()) == 2
    assert "inf" not in line.get("points")
    assert shapes(plotted(traces=(Trace(XS[:0], XS[:0], "a key alone"),)), "polyline") == []


def test_one_point_and_points_without_a_line_are_marked():
    assert len(classed(plotted(traces=(Trace(XS[:1], XS[:1], "alone"),)), "dot")) == 1
    drawn = plotted(traces=(Trace(XS, XS, "bound", marker="triangle", joined=False),))
    assert (len(classed(drawn, "triangle")), shapes(drawn, "polyline")) == (3, [])


def test_bars_reach_from_low_to_high():
    plot = Plot("x", "y", bars=(Bars(XS[:1], XS[:1], XS[:1] / 2, XS[:1] * 2, width=9),), x_range=(0, 2), y_range=(0, 4))
    (bar,) = classed(svg.draw(plot, "p"), "bar")
    up = plot.axes[1]
    assert [float(bar.get(y)) for y in ("y1", "y2")] == [round(float(up.place(v)), 1) for v in (0.5, 2.0)]
    assert bar.get("stroke-width") == "9"


def test_ticks_have_room_on_the_left_whatever_they_say():
    narrow, wide = (Plot("x", "y", y_text=lambda _, n=n: "8" * n).axes[0].start for n in (2, 20))
    assert narrow == 52
    assert wide > 20 * 7


def test_labels_of_levels_that_lie_close_do_not_overlap_and_those_outside_are_left_out():
    marks = tuple(Mark(at, f"m{at}", down=False) for at in (10.0, 10.1, 10.2, 1e6))
    labels = classed(plotted(marks=marks), "marked")
    assert [label.text for label in labels] == ["m10.0", "m10.1", "m10.2"]
    places = [float(label.get("y")) for label in labels]
    assert all(before - after >= 15 for before, after in itertools.pairwise(places))


@pytest.mark.parametrize("x", [1.0, 100.0])
def test_the_chosen_points_label_stays_within_the_picture(x):
    (circle,) = classed(plotted(chosen=Chosen(x, 100.0, "61%")), "chosen")
    (label,) = classed(plotted(chosen=Chosen(x, 100.0, "61%")), "marked")
    start, wide = float(label.get("x")), 8 * len("61%")
    assert (start if label.get("text-anchor") == "start" else start - wide) > 0
    assert (start + wide if label.get("text-anchor") == "start" else start) < 560
    assert float(label.get("y")) > 12
    assert float(circle.get("cy")) == 14


def test_every_text_of_a_picture_is_escaped():
    traces, bars = (Trace(XS, XS, HOSTILE),), (Bars(XS, XS, XS, XS, HOSTILE),)
    marks = (Mark(10.0, HOSTILE), Mark(10.0, HOSTILE, down=False))
    hostile = {"x_name": HOSTILE, "y_name": HOSTILE, "title": HOSTILE, "label": HOSTILE, "x_ticks": ((10.0, HOSTILE),)}
    plot = Plot(traces=traces, bars=bars, marks=marks, chosen=Chosen(10.0, 10.0, HOSTILE), log="xy", **hostile)
    plot = replace(plot, x_range=(1, 100), y_range=(1, 100), y_text=lambda _: HOSTILE)
    figure = Figure(HOSTILE, (plot,), notes=HOSTILE)
    for text in (
        svg.framed(plot, "p"),
        figures.drawing(figure),
        figures.page(figure),
        svg.gauge([(0.5, "x")], HOSTILE),
    ):
        assert "<script" not in text
        assert "&lt;script&gt;" in text


def test_a_legend_shows_what_has_a_name():
    traces = (Trace(XS, XS, "curve", "c1 dashed"), Trace(XS, XS, ""), Trace(XS, XS, "dots", marker="dot", joined=False))
    plot = Plot("x", "y", traces=traces, bars=(Bars(XS, XS, XS, XS, "bars"),))
    assert plot.keys == [Key("curve", "c1 dashed", "line"), Key("dots", "c0", "dot"), Key("bars", "c0", "bar")]
    listed = svg.legend(plot.keys)
    assert re.findall("</svg>([a-z]+)</li>", listed) == ["curve", "dots", "bars"]
    assert svg.legend([]) == ""
    assert [Trace(XS[:n], XS[:n], "").shape for n in range(3)] == ["line", "dot", "line"]


def test_points_have_the_colour_of_their_group():
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    keys = [Key("a", "c0"), Key("b", "c1"), Key("none", "c2")]
    drawn = maps.cloud(points, "points", codes=np.array([1, 0, 1]), keys=keys)
    paths = dict(re.findall(r'd="([^"]+)" class="cloud (c\d)"', drawn))
    assert {style: path.count("M") for path, style in paths.items()} == {"c0": 1, "c1": 2}
    assert next(path for path, style in paths.items() if style == "c0").startswith("M369")
    assert maps.cloud(points, "points").count("M") == 3


def test_colours_come_round_and_every_one_has_a_class():
    assert [svg.colour(i) for i in (0, 6, 7)] == ["c0", "c6", "c0"]
    assert set(re.findall(r"\.(c\d) \{", svg.style())) == {svg.colour(i) for i in range(svg.COLOURS)}


def test_a_gauge_never_leaves_its_frame():
    widths = [float(e.get("width")) for e in shapes(svg.gauge([(np.inf, "a"), (0.25, "b"), (-1, "c")], ""), "rect")]
    assert widths == [1000, 1000, 250, 0]


# ---- files ----------------------------------------------------------------------------------------------------------


FIGURE = Figure("a title", (Plot("x", "y", title="left", traces=(Trace(XS, XS, "one"),)),) * 3, notes="a note")


def test_an_svg_is_complete_and_has_its_colours_written_out(tmp_path):
    figures.write(FIGURE, tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    root = ET.fromstring(text)  # noqa: S314 - ours
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "var(" not in text
    assert "@media" not in text
    said = "".join(root.itertext())
    assert all(word in said for word in ("a title", "a note", "left", "one"))
    names = re.findall(r' id="([^"]+)"', text)
    assert len(names) == len(set(names)) == 6


def test_panels_lie_side_by_side_and_below_each_other():
    moves = re.findall(r"translate\(([0-9.]+) ([0-9.]+)\)\"><text", figures.drawing(FIGURE))
    places = [tuple(map(float, move)) for move in moves]
    assert (places[0][1], places[0][0]) == (places[1][1], places[2][0])
    assert places[1][0] - places[0][0] > 560
    assert places[2][1] - places[0][1] > 330


def test_a_page_needs_nothing_else_and_runs_no_script(tmp_path):
    figures.write(FIGURE, tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text()
    assert text.startswith("<!doctype html>")
    assert "default-src 'none'" in html.unescape(text)
    assert "<script" not in text
    assert not re.search(r"(src|href)=|url\((?!#)|http:|https:|@import", text)
    assert "prefers-color-scheme: dark" in text


@pytest.mark.parametrize("name", ["plan.png", "plan.pdf", "plan", "plan.svg.gz"])
def test_other_pictures_are_refused(tmp_path, name):
    with pytest.raises(ParameterError, match=r"\.svg or \.html"):
        plots.draw_plan(plan(columns=5, guarantee=ATTRIBUTE), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_pictures_need_no_library(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    plots.draw_plan(plan(columns=50, guarantee=ATTRIBUTE, distance=3.0), tmp_path / "plan.svg")
    assert (tmp_path / "plan.svg").stat().st_size > 5000


def test_the_title_of_a_plan_is_its_verdict(tmp_path):
    made = plan(columns=50, guarantee=ATTRIBUTE, distance=3.0)
    plots.draw_plan(made, tmp_path / "plan.html")
    title = re.search("<title>(.*?)</title>", (tmp_path / "plan.html").read_text()).group(1)
    assert title.startswith(made.verdict)
    assert ".." not in title


# ---- what is plotted ------------------------------------------------------------------------------------------------


def test_a_plans_curves_are_its_predictions_and_its_best_is_marked():
    made = plan(columns=50, guarantee=ATTRIBUTE, distance=3.0, rows=100)
    plot = plots.over_dimension(made)
    best = next(option for option in made.options if option.family)
    assert (plot.chosen.x, plot.chosen.y) == (best.dimension, best.relative_error(3.0))
    main = plot.traces[0]
    assert best.family in main.name
    assert "main" in main.style
    at = {option.dimension: option for option in made.all_sketches() if option.family == best.family}
    for k, error in zip(main.xs, main.ys, strict=True):
        assert error == at[int(k)].relative_error(3.0)
    assert {mark.name for mark in plot.marks} == {o.name for o in made.options if not o.family}
    low, high = plot.y_range
    assert low < plot.chosen.y < high


def test_plans_of_sums_have_no_curves_over_k():
    made = plan(purpose="cuts", guarantee=Guarantee(epsilon=1.0, delta=1e-6, unit="edge"), rows=500, distance=900.0)
    assert plots.over_dimension(made) is None
    assert plots.over_dimension(plan(columns=1, guarantee=ATTRIBUTE, distance=1.0)) is None


def test_points_that_a_logarithm_lacks_are_left_out():
    assert plots.positive_points([(0, 1), (1, 0), (1, np.nan), (1, np.inf), (2, 3)]) == ((2, 3),)


def test_spending_is_drawn_step_by_step_under_its_cap(tmp_path):
    ledger = Ledger.create(tmp_path / "b.db")
    ledger.add_dataset("people", pure(3.0))
    plots.draw_spending(ledger.dataset("people"), tmp_path / "empty.svg")
    assert "cap 3" in (tmp_path / "empty.svg").read_text()
    charged(ledger, 0.5)
    charged(ledger, 2.0)
    releases = ledger.dataset("people").releases
    plot = plots._spending(releases, 3.0)
    assert plot.bars[0].highs.tolist() == [0.5, 2.0]
    assert plot.bars[0].lows.tolist() == [0.0, 0.0]
    assert plot.traces[0].ys.tolist() == [0.5, 0.5, 2.5, 2.5]
    assert plot.traces[1].ys.tolist() == [0.5, 0.5, 2.5, 2.5]
    assert [text for _, text in plot.x_ticks] == [str(spent.number) for spent in releases]
    plots.draw_spending(ledger.dataset("people"), tmp_path / "b.html")
    assert f"{releases[0].number} Sketch, {releases[1].number} Sketch." in (tmp_path / "b.html").read_text()


def test_many_releases_share_their_ticks():
    assert len(plots._entries(range(1000))) <= 24


def test_attacks_are_drawn_with_their_errors_bounds_and_guesses():
    points = tuple(Point(e, s, 0.05, 0.9) for e, s in ((1.0, 0.6), (2.0, 0.8)))
    curves = [Curve("ICA", kind, "digits", "columns found", 0.1, 0.95, points) for kind in ("sketches", "noise")]
    plot = plots._attacked(curves)
    assert [key.name for key in plot.keys] == [
        *("sketches", "noise", "privacy's bound", "guessing", "the same, unprotected"),
    ]
    np.testing.assert_allclose(plot.bars[0].lows, [0.5, 0.7])
    np.testing.assert_allclose(plot.bars[0].highs, [0.7, 0.9])
    assert plot.title == "ICA: digits"
    assert [text for _, text in plot.x_ticks] == ["1", "2"]


def test_ticks_at_epsilons_leave_room_for_each_other():
    few = plots._spaced(np.array([1.0, 1.01, 1.02, 10.0]), 0.9, 11.0)
    assert [text for _, text in few] == ["1", "10"]
