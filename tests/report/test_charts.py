"""Charts show the numbers of their rows, all of them or in words why not, and nothing that could harm a page."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from paceline.analysis.rows.row import DeviceScaling, Row
from paceline.analysis.statistics.intervals import Estimate
from paceline.report.charts import KINDS, figures, pictures
from paceline.report.charts.axes import amounts, counts
from paceline.report.charts.kinds import Picture
from paceline.report.charts.marks import Mark
from paceline.report.charts.material import MOST_CELLS, MOST_LINES, Panel
from paceline.report.charts.style import COLOURS, DASHES, PHASE_INK, SHAPES
from paceline.store.series import Moment, Series
from paceline_worker.protocol import PHASES
from tests.factories.rows import changed, made_row

NOTHING = Series()
ONE = made_row(runs=("a1", "a2"), memory_mib_of_runs=(150.0, 164.5))
TWO = made_row(
    devices="2xcpu",
    shares=(64, 64),
    images_per_second=Estimate(6000.0, 5900.0, 6100.0),
    peak_memory_mib=(140.2, 138.0),
    scaling=1.65,
    scaling_interval=(1.6, 1.7),
    efficiency=0.825,
    runs=("b1",),
)
GONE = made_row(
    framework="neon",
    status="failed",
    reason="out of memory in train: cannot allocate 3 GiB",
    images_per_second=None,
    peak_memory_mib=(),
    scaling=None,
    efficiency=None,
    runs=("c1",),
)
COURSE = Series(
    step_seconds={"a1": [0.001, 0.002, 0.003], "a2": [0.004, 0.005], "b1": [0.01]},
    blocks={
        "a1": [
            Moment(seconds=1.0, images=100, train_loss=2.0, train_accuracy=None),
            Moment(seconds=2.0, images=200, train_loss=1.0, train_accuracy=None),
        ],
        "a2": [
            Moment(seconds=3.0, images=100, train_loss=2.4, train_accuracy=None),
            Moment(seconds=4.0, images=200, train_loss=1.6, train_accuracy=None),
        ],
    },
    epochs={
        "a1": [
            Moment(seconds=9.0, images=400, train_loss=1.0, train_accuracy=0.6, test_loss=1.0, test_accuracy=0.5),
        ],
        "a2": [
            Moment(seconds=11.0, images=400, train_loss=1.0, train_accuracy=0.7, test_loss=1.0, test_accuracy=0.7),
        ],
    },
    phases={"a1": {"start": 2.0, "train": 6.0, "evaluate": 2.0}, "a2": {"start": 4.0, "train": 8.0, "evaluate": 2.0}},
)


def the_picture(kind: str, rows: list[Row], series: Series = NOTHING) -> Picture:
    (picture,) = pictures(kind, rows, series, link=lambda row: f"#cell-{rows.index(row)}")
    return picture


def marks(panel: Panel, kind: str) -> list[Mark]:
    return [mark for mark in panel.marks if mark.kind == kind]


def panel_of(picture: Picture) -> Panel:
    (panel,) = picture.drawing.panels
    return panel


def spans(panel: Panel, kind: str) -> list[tuple[float, float]]:
    """From where to where each of these marks goes, from the left to the right."""
    places = [[across for across, _ in mark.places] for mark in marks(panel, kind)]
    return [(min(found), max(found)) for found in places]


def lines_of(picture: Picture, kind: str) -> list[str]:
    """The cells in whose lines these marks stand, a cell once."""
    names = [label for _, label in panel_of(picture).up.ticks]
    return list(dict.fromkeys(names[round(mark.places[0][1])] for mark in marks(panel_of(picture), kind)))


def texts(panel: Panel) -> list[str]:
    return [mark.text for mark in panel.marks if mark.text]


def subtitle(picture: Picture) -> str:
    return " ".join(picture.notes)


def drawn_text(svg: str) -> list[str]:
    """Every text of a picture, read as XML; a picture that is none fails here."""
    root = ElementTree.fromstring(svg)  # noqa: S314 - our own
    return ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]


def test_speed_has_the_median_and_the_interval_of_each_row() -> None:
    picture = the_picture("speed", [ONE, TWO])
    panel = panel_of(picture)
    assert lines_of(picture, "bar") == ["torch 1xcpu", "torch 2xcpu"]
    assert spans(panel, "bar") == [(0, 3631.7), (0, 6000.0)]
    assert [bar.href for bar in marks(panel, "bar")] == ["#cell-0", "#cell-1"]
    assert spans(panel, "interval") == [(3468.8, 3854.1), (5900.0, 6100.0)]
    assert picture.description == (
        "Images per second, the fastest first: torch 2xcpu 6,000 (5,900–6,100); torch 1xcpu 3,632 (3,469–3,854)."
    )


def test_an_interval_that_would_have_the_picture_to_itself_is_cut_and_that_is_said() -> None:
    wide = made_row(framework="jax", images_per_second=Estimate(3000.0, 600.0, 18000.0))
    picture = the_picture("speed", [ONE, TWO, wide])
    assert lines_of(picture, "interval") == ["torch 1xcpu", "jax 1xcpu", "torch 2xcpu"]
    assert spans(panel_of(picture), "interval")[1] == (600.0, 9000.0)  # half as much again as the fastest
    strokes = [len(mark.places) for mark in marks(panel_of(picture), "interval")]
    assert strokes == [6, 4, 6]  # none at the end where it goes on
    assert "the interval goes on beyond the picture: jax 1xcpu" in subtitle(picture)
    assert "3,000 (600–18,000)" in picture.description


def test_so_are_intervals_of_points() -> None:
    wide = changed(TWO, scaling_interval=(0.4, 8.0))
    picture = the_picture("scaling", [ONE, wide])
    speed_up, efficiency = (marks(panel, "interval")[0].places for panel in picture.drawing.panels)
    assert speed_up == [(2, 0.4), (2, pytest.approx(1.5 * 1.65))]
    assert efficiency == [(2, 0.2), (2, 1.5)]  # one device has 1
    assert "1 interval goes on beyond the picture" in subtitle(picture)
    assert "goes on" not in subtitle(the_picture("scaling", [ONE, TWO]))


def test_scaling_has_speed_up_efficiency_and_the_ideal_line() -> None:
    picture = the_picture("scaling", [ONE, TWO])
    speed_up, efficiency = picture.drawing.panels
    assert [mark.places for mark in marks(speed_up, "point")] == [[(1, 1.0)], [(2, 1.65)]]
    assert [mark.places for mark in marks(efficiency, "point")] == [[(1, 1.0)], [(2, 0.825)]]
    assert [mark.places for mark in marks(speed_up, "interval")] == [[(2, 1.6), (2, 1.7)]]
    assert [mark.places for mark in marks(efficiency, "interval")] == [[(2, 0.8), (2, 0.85)]]
    assert [mark.places for mark in marks(speed_up, "rule")] == [[(1, 1), (2, 2)]]
    assert [mark.places for mark in marks(efficiency, "rule")] == [[(1, 1), (2, 1)]]


def test_simulated_devices_are_left_out_of_scaling_in_words() -> None:
    slowed = made_row(devices="2xcpu", slow=(1.0, 2.0), marks=("simulated",), scaling=1.3)
    picture = the_picture("scaling", [ONE, TWO, slowed])
    assert len(marks(picture.drawing.panels[0], "point")) == 2
    assert "without 1 cells of unlike, slowed or wrapped devices" in subtitle(picture)


def test_unlike_cards_have_no_speed_up_to_draw() -> None:
    against = tuple(DeviceScaling(devices, 1, Estimate(1.5)) for devices in ("cuda:0", "cuda:1"))
    unlike = made_row(devices="cuda:0+cuda:1", scaling=None, scaling_against=against)
    one, two = (changed(row, devices=name) for row, name in ((ONE, "cuda:0"), (TWO, "cuda:0+cuda:2")))
    picture = the_picture("scaling", [one, two, unlike])
    assert len(marks(picture.drawing.panels[0], "point")) == 2
    assert "without 1 cells of unlike, slowed or wrapped devices" in subtitle(picture)


def test_memory_is_the_largest_device_with_the_range_of_devices_or_runs() -> None:
    picture = the_picture("memory", [ONE, TWO])
    panel = panel_of(picture)
    assert spans(panel, "bar") == [(0, 157.25), (0, 140.2)]
    assert spans(panel, "interval") == [(150.0, 164.5), (138.0, 140.2)]
    assert texts(panel) == ["157", "140+138"]


def test_memory_of_all_devices_together_is_hollow_and_comes_after_that_of_a_device() -> None:
    whole = {"devices": "2xcpu", "memory_of": "all devices", "peak_memory_mib": (120.0,)}
    picture = the_picture("memory", [ONE, made_row(framework="jax", **whole)])
    assert lines_of(picture, "bar") == ["torch 1xcpu", "jax 2xcpu"]
    assert [mark.look["fill-opacity"] for mark in marks(panel_of(picture), "bar")] == [0.55, 0]
    assert "the least first: torch 1xcpu 157; jax 2xcpu 120 in all devices together." in picture.description
    assert "hollow, and not ranked: one process serves all devices" in subtitle(picture)


def test_steps_show_the_middle_half_and_the_range_of_all_blocks() -> None:
    panel = panel_of(the_picture("steps", [ONE, TWO], COURSE))
    found = [spans(panel, kind)[0] for kind in ("interval", "bar", "median")]
    assert [each for span in found for each in span] == pytest.approx([1, 5, 2, 4, 3, 3])  # milliseconds of both runs


def test_loss_is_the_median_of_the_runs_between_their_lowest_and_highest() -> None:
    picture = the_picture("loss", [ONE], COURSE)
    against_seconds, against_images = picture.drawing.panels
    assert [mark.places for mark in marks(against_seconds, "line")] == [[(2.0, 2.2), (3.0, 1.3)]]
    assert [mark.places for mark in marks(against_images, "line")] == [[(100, 2.2), (200, 1.3)]]
    assert marks(against_seconds, "area")[0].places == [(2.0, 2.4), (3.0, 1.6), (3.0, 1.0), (2.0, 2.0)]
    assert picture.description == "Last training loss: torch 1.300 (1.000–1.600) after 3.00 s and 200 images."


def losses(*found: float | None) -> list[Moment]:
    return [
        Moment(seconds=float(place), images=100 * place, train_loss=loss, train_accuracy=None)
        for place, loss in enumerate(found, 1)
    ]


def test_a_loss_that_diverged_is_said_and_a_cell_that_vanished_is_named() -> None:
    blocks = {"good": losses(3.0, 2.0, 1.0), "late": losses(3.0, 2.0, None), "never": losses(None, None, None)}
    rows = [made_row(runs=("good", "late")), made_row(framework="jax", runs=("never",))]
    picture = the_picture("loss", rows, Series(blocks=blocks))
    assert "torch: loss is no number from block 3 on (1 of 2 runs)" in picture.notes
    assert "jax: loss is no number from block 1 on (1 of 1 runs)" in picture.notes
    assert "without a line: jax" in picture.notes
    assert picture.description.startswith("Last training loss: torch 2.000 after 2.00 s and 200 images.")
    assert "jax: loss is no number" in picture.description


def test_accuracy_has_test_and_training_and_the_target() -> None:
    row = made_row(runs=("a1", "a2"), target=0.65)
    panel = the_picture("accuracy", [row], COURSE).drawing.panels[0]
    training, test = (mark.places for mark in marks(panel, "line"))
    assert training[0] == pytest.approx((10.0, 0.65))
    assert test[0] == pytest.approx((10.0, 0.6))  # of 0.5 and 0.7
    assert {up for _, up in marks(panel, "rule")[0].places} == {0.65}
    assert texts(panel) == ["target 65%"]


def test_phases_are_stacked_medians_in_their_order() -> None:
    picture = the_picture("phases", [ONE], COURSE)
    inks = [bar.look.get("fill-opacity") for bar in marks(panel_of(picture), "bar")]
    assert inks == [*(PHASE_INK[phase] for phase in ("start", "train", "evaluate")), 0]
    assert spans(panel_of(picture), "bar") == [(0.0, 3.0), (3.0, 10.0), (10.0, 12.0), (0, 12.0)]
    assert picture.description == "Sum of the phases' medians: torch 12.0 s, 58% of it in the train phase."
    assert "dark: the train phase, with the pauses between its blocks, which images/s leaves out" in subtitle(picture)


def test_bar_of_phases_tells_the_seconds_of_each() -> None:
    (found,) = figures([ONE], COURSE, lambda row: "#there", wanted=("phases",))
    told = "torch: 12.0 s, 58% of it in the train phase: start 3.00 s, train 7.00 s, evaluate 2.00 s"
    assert f'aria-label="{told}"' in found.svg


def test_batches_of_several_tables_make_one_line() -> None:
    rows = [made_row(batch_size=size, shares=(size,), steps=6400 // size) for size in (32, 64, 128)]
    rows.append(made_row(framework="jax", images_per_second=Estimate(4000.0)))
    picture = the_picture("batch", rows)
    assert [point[:2] for point in points_of(picture)] == [
        *(("torch", 32), ("torch", 64), ("torch", 128)),
        ("jax", 128),
    ]
    assert not list(pictures("batch", rows[-1:], NOTHING))


def points_of(picture: Picture) -> list[tuple[str, float, float]]:
    """The name of the line in the legend, and the numbers of each point."""
    names = {point.shape: name for name, (_, point) in picture.drawing.legend.items()}
    return [(names[mark.shape], *mark.places[0]) for mark in marks(picture.drawing.panels[0], "point")]


def in_batches(*sizes: int, **changes: Any) -> list[Row]:
    """Each batch one image/s faster than the one before."""
    return [
        made_row(**{"batch_size": size, "shares": (size,), "images_per_second": Estimate(100.0 + place), **changes})
        for place, size in enumerate(sizes)
    ]


def test_a_batch_of_two_lengths_makes_two_lines() -> None:
    rows = in_batches(32, 64) + in_batches(64, steps=600, epochs=0.768)
    assert points_of(the_picture("batch", rows)) == [
        ("torch 60 steps", 32, 100.0),
        ("torch 60 steps", 64, 101.0),
        ("torch 600 steps", 64, 100.0),
    ]


def test_batches_of_one_epoch_and_of_two_make_two_lines() -> None:
    rows = [
        made_row(batch_size=size, shares=(size,), steps=epochs * 50_000 // size, epochs=float(epochs))
        for epochs in (1, 2)
        for size in (50, 100)
    ]
    found = [(line, batch) for line, batch, _ in points_of(the_picture("batch", rows))]
    assert found == [("torch 1 epoch", 50), ("torch 2 epochs", 50), ("torch 1 epoch", 100), ("torch 2 epochs", 100)]


def test_cells_that_nothing_tells_apart_are_left_out_in_words() -> None:
    picture = the_picture("batch", in_batches(32, 64, 64))
    assert points_of(picture) == [("torch", 32, 100.0), ("torch", 64, 101.0)]
    assert "1 cell of the same name is left out" in picture.notes


def test_names_that_are_alike_when_cut_stay_two_lines() -> None:
    long = "x" * 60
    rows = in_batches(32, 64, framework=f"{long}a") + in_batches(64, 128, framework=f"{long}b")
    found = points_of(the_picture("batch", rows))
    assert [batch for _, batch, _ in found] == [32, 64, 64, 128]
    assert len({line for line, _, _ in found}) == 2


def test_a_failed_cell_stands_where_its_bar_would_be_with_its_cause() -> None:
    (found,) = figures([ONE, GONE], NOTHING, lambda row: "#there", wanted=("speed",))
    assert "× failed: out of memory in train: cannot allocate 3 GiB" in drawn_text(found.svg)
    assert found.description.endswith("failed: neon 1xcpu.")
    assert found.svg.count('href="#there"') == 2  # it leads to its cell as the bar does


def test_a_failed_cell_is_named_below_the_title_of_charts_with_lines() -> None:
    lost = made_row(framework="jax", devices="2xcpu", status="failed", scaling=None, runs=())
    assert "failed: jax 2xcpu" in subtitle(the_picture("scaling", [ONE, TWO, lost]))
    assert "failed: jax 2xcpu" in subtitle(the_picture("loss", [ONE, TWO, lost], COURSE))


def test_doubts_are_words() -> None:
    noisy = made_row(status="noisy", marks=("oversubscribed",), reason="its interval is wide")
    assert texts(panel_of(the_picture("speed", [noisy]))) == ["3,632, noisy, oversubscribed"]
    two = made_row(devices="2xcpu", status="noisy", scaling=1.5)
    picture = the_picture("scaling", [ONE, two])
    assert "noisy (hollow points): torch 2xcpu" in subtitle(picture)
    points = marks(picture.drawing.panels[0], "point")
    assert [(mark.places[0][0], mark.look["fill-opacity"]) for mark in points] == [(1, 1), (2, 0)]


def test_what_is_fixed_stands_below_the_title() -> None:
    assert "420,096 parameters, batch 128 in all (strong scaling), 60 steps, fake:device, float32" in subtitle(
        the_picture("speed", [ONE])
    )
    assert "AMD EPYC, 2 cores, 24 GiB" in subtitle(the_picture("speed", [ONE]))


def test_devices_that_train_equal_epochs_in_unlike_steps_are_drawn_together() -> None:
    one = changed(ONE, scaling_kind="weak", steps=3907, whole_epochs=10)
    two = changed(TWO, scaling_kind="weak", batch_size=256, steps=1954, whole_epochs=10)
    assert "batch 128 per device (weak scaling), 10 epochs" in subtitle(the_picture("scaling", [one, two]))


def test_rows_that_look_alike_get_names_of_their_own() -> None:
    alike = [made_row(), made_row(seed=2), made_row(seed=2)]
    assert lines_of(the_picture("speed", alike), "bar") == ["torch seed 1", "torch seed 2", "torch seed 2 (2)"]


@pytest.mark.parametrize("kind", ["speed", "scaling", "memory", "batch"])
def test_two_machines_of_one_description_are_never_in_one_picture(kind: str) -> None:
    two = in_batches(32, 64, devices="2xcpu", scaling=1.5) if kind == "batch" else [ONE, TWO]
    other = [changed(row, machine="ffff") for row in two]
    first, second = pictures(kind, [two[0], other[0], other[1], two[1]], NOTHING)
    assert first.shared.endswith(", machine 0123abcd")
    assert second.shared.endswith(", machine ffff")
    (alone,) = pictures(kind, two, NOTHING)
    assert first.drawing == second.drawing == alone.drawing
    assert "AMD EPYC, 2 cores, 24 GiB, Linux 6.1" in first.notes


def test_hundreds_of_cells_are_limited_in_words() -> None:
    many = [made_row(framework=f"f{number}", images_per_second=Estimate(100.0 + number)) for number in range(310)]
    many += [GONE, made_row(devices="2xcpu", scaling=1.9)]
    picture = the_picture("speed", many)
    assert len(marks(panel_of(picture), "bar")) == MOST_CELLS
    assert "24 of 312 cells, the fastest" in subtitle(picture)
    assert "not shown: 1 failed" in subtitle(picture)
    both = [
        row
        for each in many[:10]
        for row in (each, made_row(framework=each.cell.framework, devices="2xcpu", scaling=1.9))
    ]
    lines = the_picture("scaling", both)
    assert len({point[0] for point in points_of(lines)}) == MOST_LINES
    assert "8 of 10 lines, the fastest" in subtitle(lines)


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ((0, 15_108), ["0", "5,000", "10,000", "15,000", "20,000"]),
        ((1.79, 2.31), ["1.7", "1.8", "1.9", "2.0", "2.1", "2.2", "2.3", "2.4"]),
        ((0.5,), ["0.44", "0.46", "0.48", "0.50", "0.52", "0.54", "0.56"]),
        ((0, 0), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        ((5e-324, 1e-320), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        ((0, float("inf")), ["0", "2e+199", "4e+199", "6e+199", "8e+199", "1e+200"]),
    ],
)
def test_axis_goes_from_one_round_number_to_another(values: tuple[float, ...], labels: list[str]) -> None:
    axis = amounts("", values, zero=False, count=4 if max(values) > 100 else 6)
    assert [label for _, label in axis.ticks] == labels
    assert (axis.place(axis.ends[0], 200), axis.place(axis.ends[1], 200)) == (0, 200)


def test_labels_of_an_axis_are_not_written_over_each_other() -> None:
    axis = counts("devices", range(1, 65))
    assert len(axis.ticks) == 64
    assert [label for _, label in axis.labels(250)][:3] == ["1", "3", "5"]


def test_nothing_is_drawn_from_nothing() -> None:
    assert figures([], NOTHING, lambda row: "") == []
    assert [picture for kind in KINDS for picture in pictures(kind, [GONE], NOTHING)] == []


ALL = [ONE, TWO, GONE, made_row(batch_size=64, shares=(64,))]


@pytest.mark.parametrize("kind", KINDS)
def test_a_figure_takes_the_colour_of_its_page_and_leads_to_its_cells(kind: str) -> None:
    rows = [changed(row, data="cifar10") for row in ALL]
    (found, *_) = figures(rows, COURSE, lambda row: f"#cell-{rows.index(row)}", wanted=(kind,))
    assert 'fill="currentColor"' in found.svg
    assert 'href="#cell-0"' in found.svg
    assert found.title.startswith(KINDS[kind].title)
    assert not re.search(r'\sstyle=|\sid=|url\(|<script|<style|fill="(#000|black)', found.svg)


def test_a_page_does_not_show_the_loss_on_labels_at_random() -> None:
    assert "loss" not in {found.kind for found in figures([ONE], COURSE, lambda row: "#there")}
    assert list(pictures("loss", [ONE], COURSE))  # but who asks for it gets it


HOSTILE = "<script>alert('1')</script>\"&\n]]>\x00\x1b[31m\u2028 " + "x" * 200


def test_hostile_names_are_text_and_nothing_else() -> None:
    hostile = made_row(
        **dict.fromkeys(("workload", "framework", "machine_description", "data", "update", "precision"), HOSTILE),
        runs=("a1", "a2"),
    )
    failed = made_row(framework="'+alert(1)+'", workload=HOSTILE, status="failed", reason=HOSTILE, scaling=None)
    for found in figures([hostile, failed], COURSE, lambda row: '#"><script>'):
        texts = drawn_text(found.svg)
        assert any("<script>" in text for text in texts)
        assert "<script" not in found.svg
        tags = {node.tag.partition("}")[2] for node in ElementTree.fromstring(found.svg).iter()}  # noqa: S314
        assert tags <= {"svg", "g", "path", "text", "tspan", "rect", "line", "a"}


def test_name_that_looks_like_a_link_is_none() -> None:
    name = 'xlink:href="#99999"'
    rows = [made_row(framework=name, devices=f"{n}xcpu", scaling=float(n)) for n in (1, 2)]
    assert any(name in text for found in figures(rows, NOTHING, lambda row: "#x") for text in drawn_text(found.svg))


def test_lines_differ_in_shape_dash_and_colour_and_colours_show_on_any_paper() -> None:
    assert len(set(SHAPES)) == len(set(DASHES)) == len(set(COLOURS)) == MOST_LINES
    for colour in COLOURS:
        light = luminance(colour)
        assert 1.05 / (light + 0.05) >= 3
        assert (light + 0.05) / (luminance("#15181d") + 0.05) >= 3


def luminance(colour: str) -> float:
    """As the contrast of WCAG has it."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_every_phase_that_takes_time_has_an_ink() -> None:
    assert tuple(PHASE_INK) == PHASES[:-1]  # nothing is measured after `finish` begins
