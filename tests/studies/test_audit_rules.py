"""Every rule of an audit is broken once here, or by a published text; and what is nearly wrong is not called wrong."""

from __future__ import annotations

import pytest

from paceline.studies.audit import audit
from paceline.studies.audit.printed_rows import AuditFinding, Document, duration, number
from paceline.studies.audit.rules.all_rules import RULES, examine, judge
from paceline.studies.audit.text.reading import read_csv, read_markdown

GRID = "gpus,a,b,c\n1,100,101,99\n2,190,191,188\n4,370,372,366\n8,720,724,716\n"
LOG = """
### Time
| | A + A | A |
|---|---|---|
| x | 10.0s | 19.0s |
### Memory
| | A + A | A |
|---|---|---|
| x | 900 + 900 MiB | 1000 MiB |
## x
### A + A
```
run.py --gpus 0,1
real 0m10.04s
peak memory (1000 - 100)MiB + (950 - 50)MiB
```
### A
```
run.py
real 0m18.04s
peak memory (1200 - 100)MiB
```
"""
BROKEN = {  # by the rule: a file, and what is said
    "step time": (
        "batch size,images/s,step time (ms)\n64,640,100\n64,320,100\n",
        "printed 320, but 64 images / 100 ms = 640 (50% less)",
    ),
    "speed of one": (
        "gpus,images/s/gpu,images/s\n4,100,400\n8,90,900\n",
        "printed 900, but 90 x 8 devices = 720 (25% more)",
    ),
    "log": (LOG, "printed 19.0, but 18.04 s in the log = 18.0 (5% more)"),
    "memory": (LOG, "printed 1000, but 1200 - 100 = 1100 (9% less)"),
    "processor time": (
        "".join(
            f"### {'A + A' if not i else 'A'}\n```\nrun.py\nreal 0m{real}s\nuser 0m{user}s\nsys 0m1s\n```\n"
            for i, (real, user) in enumerate(((10, 9.1), (20, 18.8), (30, 29.2), (40, 19)))
        ),
        "20 s of processor time in 40 s make 0.50, but 1.00 in the other runs",
    ),
    "batch": ("batch,gpus\n128x8=1000,8\n", "printed 128x8=1000, but that makes 1024"),
    "utilisation": ("gpus,images/s\n1,100 (130%)\n", "printed 130%, but utilisation ends at 100%"),
    "one unit": (
        "gpus,total memory\n1,900 MB\n2,950 MB\n4,3.9 GB\n",
        "memory is printed in MB and GB; compared in MB",
    ),
    "speed-up": ("gpus,images/s,speed-up\n1,100,1\n2,150,1.9\n", "printed 1.9, but 150 / 100 = 1.5 (27% more)"),
    "efficiency": ("gpus,speed-up,efficiency\n2,1.5,95%\n", "printed 95%, but 1.5 / 2 devices = 75% (27% more)"),
    "linear": (
        "gpus,images/s\n1,100\n2,190\n4,720\n8,725\n",
        "images/s of 190 on 2 and 720 on 4 devices: 3.79 times as fast on 2 times as many",
    ),
    "neighbours": (
        "# images/s\n| gpus | a | b | c | d |\n|---|---|---|---|---|\n| 1 | 100 | 101 | 99 | 100 |\n"
        "| 2 | 190 | 240 | 188 | 190 |\n| 4 | 370 | 372 | 366 | 371 |\n",
        "printed 240, but its neighbours make 191.9",
    ),
    "smooth": (
        "gpus,memory (MiB)\n1,100\n2,300\n4,110\n",
        "printed 300 on 2, but 100 on 1 and 110 on 4 devices make 104.9 between them",
    ),
    "accuracy": ("accuracy\n0.817\n8.17\n", "printed 8.17, but accuracy lies between 0 and 1"),
    "accuracy of a setting": (
        "gpus,accuracy\n1,0.41\n2,0.82\n4,0.40\n8,0.39\n",
        "printed 0.82, but the other 3 rows of its setting have 0.4 in the middle and 0.41 at most",
    ),
    "training and test": (
        "train accuracy,test accuracy\n0.6,0.55\n0.61,0.57\n0.6,0.56\n0.58,0.97\n0.62,0.57\n",
        "test accuracy 0.97, but 0.58 in training; the others have no such gap",
    ),
    "errors and top-k": (
        "top1,top1_err,top5\n80.1,19.9,95\n70.2,39.8,90\n",
        "70.2 of accuracy and 39.8 of errors make 110, not 100",
    ),
    "order": (
        "### Time\n| | 1 | 2 |\n|---|---|---|\n| x | 10 | 9 |\n\nx's multi gpu slower than single\n",
        "claimed a single one before several, but 10 against 9",
    ),
    "machine": (
        "Machine: p3.8xlarge.\n\n| gpus | images/s |\n|---|---|\n| 8 | 100 |\n",
        "printed 8 devices, but p3.8xlarge has 4",
    ),
    "heading": (
        "".join(f"## {name}\n### A + A\n```\n{line}\n```\n### A\n```\n{last}\n```\n### A\n```\n{line}\n```\n"
                for name, line, last in (("x", "x.py", "x.py"), ("y", "y.py", "x.py"))),
        "heading is y, but `x.py` is the program of x",
    ),
}  # fmt: skip


def document(text: str) -> Document:
    return read_markdown("page.md", text) if "|" in text or "```" in text else read_csv("small.csv", text)


@pytest.mark.parametrize("rule", BROKEN)
def test_broken_rule_is_found(rule: str) -> None:
    text, said = BROKEN[rule]
    found = {each.rule: each.text for each in examine(document(text)) if each and each.rule == rule}
    assert found == {rule: said}


def test_every_rule_is_broken_here_or_by_a_published_text() -> None:
    found = audit("published")
    assert {each.name for each in RULES} == {each.rule for each in found.findings + found.notes} | set(BROKEN)


def wrong(text: str) -> list[AuditFinding]:
    return [each for each in examine(document(text)) if each and each.counts]


# How far a speed may stray from its time


def test_rows_that_agree_closely_make_the_rule_strict() -> None:
    rows = "".join(f"cifar10,{speed},{50000 / speed:.2f}\n" for speed in (100, 200, 300, 400, 500, 600))
    head = "dataset,images/s,s/epoch\n"
    assert wrong(head + rows) == []
    assert [each.text for each in wrong(f"{head}{rows}cifar10,1060,50.00\n")] == [
        "printed 1060, but 50,000 images / 50.00 s = 1000 (6% more)"
    ]


def test_rows_that_stray_make_it_wide() -> None:
    rows = "".join(f"cifar10,{500 + off},100\n" for off in (-20, -12, -3, 0, 6, 14, 22))
    assert wrong(f"dataset,images/s,s/epoch\n{rows}cifar10,530,100\n") == []


@pytest.mark.parametrize(("speed", "counts"), [(515, None), (545, False), (555, False), (570, True)])
def test_few_rows_contradict_only_what_no_validation_explains(speed: int, counts: bool | None) -> None:
    """10,000 images that are validated add a fifteenth to the time of 50,000; rounding comes on top of it."""
    found = [each for each in examine(document(f"dataset,images/s,s/epoch\ncifar10,{speed},100\n")) if each]
    assert [each.counts for each in found] == ([] if counts is None else [counts])
    steps = [each for each in examine(document(f"batch,images/s,step time (s)\n500,{speed},1.00\n")) if each]
    assert [each.counts for each in steps] == ([] if counts is None else [counts])


def test_unknown_data_set_has_the_same_images_in_all_rows() -> None:
    rows = "".join(f"x,{n},{n * 97},{10000 / n:.2f}\n" for n in range(1, 7))
    head = "network,gpus,images/s,s/epoch\n"
    assert wrong(head + rows) == []
    assert [each.rule for each in wrong(f"{head}{rows}x,7,900,1428.57\n")] == ["images per epoch"]
    assert wrong(f"{head}{rows}another network,7,900,1428.57\n") == []


# Machines


@pytest.mark.parametrize(
    ("text", "is_wrong"),
    [
        ("`Machine` - [AWS EC2 P2.8xlarge](https://aws.amazon.com/ec2/instance-types/p2/)", True),
        ("* **Infrastructure 1**: AWS p2.8x (8 gpus)", True),
        ("The machine is a DGX-1.", True),
        ("The machine is a DGX-2.", False),
        ("Tested on DGX-1.", False),  # maybe on two of them: a note
        ("Machine: a DGX-1 (32x V100)", False),
        ("Machine: two nodes of a p3.16xlarge cluster.", False),
        ("Machine: 2 x p3.16xlarge", False),
        ("Machine: p3.8xlargest", False),
    ],
)
def test_devices_are_held_against_the_named_machine(text: str, is_wrong: bool) -> None:
    assert bool(wrong(f"{text}\n\n| gpus | images/s |\n|---|---|\n| 16 | 10 |\n")) is is_wrong


def test_machine_of_an_earlier_section_is_not_that_of_a_later_one() -> None:
    table = "| gpus | images/s |\n|---|---|\n| 8 | 10 |\n"
    assert wrong(f"## One\n### Setup\nMachine: p3.8xlarge.\n## Two\n{table}") == []
    assert len(wrong(f"## One\n### Setup\nMachine: p3.8xlarge.\n### Results\n{table}")) == 1


@pytest.mark.parametrize(
    ("heading", "machine", "counts"),
    [
        ("instance", "p3.8xlarge", True),
        ("machine", "AWS EC2 p3.8xlarge (4x V100)", True),
        ("system", "p3.8xlarge", False),  # maybe two of them
        ("system", "p3.16xlarge", None),
        ("instance", "p3.8xlarge x2", None),
        ("instance", "p3.8xlarge (2)", None),
        ("instance", "cluster of p3.8xlarge", None),
        ("instance", "a machine of its own", None),
    ],
)
def test_devices_are_held_against_the_machine_that_a_column_names(
    heading: str, machine: str, counts: bool | None
) -> None:
    said = [] if counts is None else [("printed 8 devices, but p3.8xlarge has 4", counts)]
    rows = f"|{heading}|gpus|images/s|\n|---|---|---|\n|{machine}|8|100|\n|p3.2xlarge|1|14|\n"
    for text in (f"{heading},gpus,images/s\n{machine},8,100\np3.2xlarge,1,14\n", rows, f"On a DGX-2:\n\n{rows}"):
        found = [each for each in examine(document(text)) if each]
        assert [(each.text, each.counts) for each in found if each.rule == "machine"] == said


def test_where_machines_are_counted_they_may_have_more_devices_than_one() -> None:
    assert wrong("instance,nodes,gpus,images/s\np3.8xlarge,2,8,100\n") == []
    assert wrong("Trained on a cluster.\n\n|instance|gpus|\n|---|---|\n|p3.8xlarge|8|\n") == []


# Memory


@pytest.mark.parametrize(
    ("unit", "peak", "is_wrong"),
    [("MiB", "1041 - 138", False), ("MB", "1041 - 138", True), ("MB", "999 - 138", False), ("GB", "1 - 0", False)],
)
def test_same_digits_need_the_same_unit(unit: str, peak: str, is_wrong: bool) -> None:
    text = f"### Memory\n| | A | A + A |\n|---|---|---|\n| x | 903 {unit} | |\n## x\n### A + A\n```\na\n```\n"
    log = f"### A\n```\nrun\npeak memory ({peak})MiB\n```\n"
    assert ("unit" in {each.rule for each in wrong(text + log)}) is is_wrong


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (("900 MB", "1.8 GB", "3600 MB"), []),
        (("0.9 GB", "1.8 GB", "900 MB"), ["memory is not a sum over cards: 0.9 on 4 after 1.8 on 2"]),
        (
            ("900", "1.8", "3.6"),
            ["memory is not a sum over cards: 1.8 on 2 after 900 on 1"],
        ),  # nothing tells them apart
        (("900 MB", "1.8", "3600 MB"), []),
    ],
)
def test_memory_of_a_column_is_compared_in_one_unit(cells: tuple[str, ...], said: list[str]) -> None:
    for head, row in (("gpus,total memory\n", "{},{}\n"), ("|gpus|total memory|\n|---|---|\n", "|{}|{}|\n")):
        text = head + "".join(row.format(2**i, cell) for i, cell in enumerate(cells))
        assert [each.text for each in wrong(text)] == said


def test_number_without_a_unit_among_others_is_not_checkable() -> None:
    judged = judge(document("gpus,total memory\n1,900 MB\n2,1.8\n4,3600 MB\n"))
    assert ("memory without a unit", 1) in [(each.quantity, each.figures) for each in judged.unchecked]
    judged = judge(document("epochs,total time,time per epoch\n10,20 min,2 min\n10,20,120\n10,3 min,0.3 min\n"))
    assert [each.text for each in judged.verdicts if each] == [
        "training time is printed in min, and without a unit",
        "time per epoch is printed in min, and without a unit",
    ]


def test_unit_of_a_table_is_that_of_its_heading() -> None:
    table = "### {} memory (MiB)\n| | 1 | 2 |\n|---|---|---|\n| {} | {} | {} |\n"
    page = f"B is memory efficient than A (2x)\n{table.format('Total', 'A', '1.8 GB', '3600')}"
    assert wrong(f"{page}{table.format('Total', 'B', '858.3', '1800')}") == []


def test_memory_of_two_tables_is_compared_in_one_unit() -> None:
    table = "### Memory\n| | 1 | 2 |\n|---|---|---|\n| {} | {} | {} |\n"
    page = f"B is memory efficient than A (2x)\n{table.format('A', '1.8 GB', '3.6 GB')}"
    assert wrong(f"{page}{table.format('B', '900 MB', '1800 MB')}") == []
    assert [each.text for each in wrong(f"{page}{table.format('B', '450 MB', '900 MB')}")] == [
        "claimed 2 times, but 1.8 GB / 450 MB = 4.00 on 1 and 3.6 GB / 900 MB = 4.00 on 2"
    ]


def test_memory_is_a_sum_only_if_its_heading_is_one_elsewhere() -> None:
    shrinking = "### A\n| gpus | memory |\n|---|---|\n| 1 | 5086 |\n| 2 | 5048 |\n"
    filled = "### B\n| gpus | memory |\n|---|---|\n| 1 | 10946 |\n| 2 | 21890 |\n| 4 | 43778 |\n"
    assert wrong(shrinking) == []
    assert [each.where for each in wrong(shrinking + filled) if each.rule == "sum of memory"] == ["A"]
    assert [each.rule for each in wrong(shrinking.replace("memory", "total memory"))] == ["sum of memory"]


# Devices


def test_nodes_that_come_with_their_devices_are_no_setting() -> None:
    rows = "1,1,156.8,1\n1,8,1153.1,7.35\n2,16,2172.6,13.9\n"
    head = "node_num,gpu_num,samples/s,speedup\n"
    assert wrong(head + rows) == []
    assert [each.rule for each in wrong(f"{head}{rows}4,32,8340.9,53.2\n")] == ["linear"]
    assert [each.rule for each in wrong(f"{head}{rows}4,32,4340.9,53.2\n")] == ["speed-up"]


def test_of_several_single_devices_the_one_of_the_same_setting_is_the_base() -> None:
    rows = "64,1,100,1\n64,2,190,1.9\n96,1,120,1\n96,2,230,1.5\n"
    assert [each.text for each in wrong(f"image size,gpus,images/s,speed-up\n{rows}")] == [
        "printed 1.5, but 230 / 120 = 1.9 (22% less)"
    ]


# What cannot be checked


def test_figure_that_nothing_contradicts_is_named_and_passes_no_check() -> None:
    judged = judge(document("framework,gpus,images/s,accuracy\nx,1,100,0.3\ny,1,200,0.9\n"))
    assert [(each.quantity, each.figures) for each in judged.unchecked] == [("images/s", 2), ("accuracy", 1)]
    assert judged.verdicts == [None]  # 0.9: twice as much would be out of range


def test_check_of_a_step_is_none_where_twice_the_speed_would_be_possible() -> None:
    judged = judge(document("gpus,images/s\n1,100\n8,180\n"))
    assert judged.verdicts == []
    assert [each.figures for each in judged.unchecked] == [2]


# Reading


@pytest.mark.parametrize(
    ("text", "seconds", "step"),
    [("2m27.192s", 147.192, 0.001), ("3 min", 180, 60), ("1h 20m", 4800, 60), ("8.1s", 8.1, 0.1), ("96.9", 96.9, 0.1)],
)
def test_durations_are_seconds(text: str, seconds: float, step: float) -> None:
    found = duration(text)
    assert found is not None
    assert found.value == pytest.approx(seconds)
    assert found.step == pytest.approx(step)


def test_milliseconds_are_no_seconds() -> None:
    assert duration("12.5 ms") is None


@pytest.mark.parametrize(("text", "value"), [("12k", 12000), ("1.5K", 1500), ("12 KB", 12), ("92 %", 0.92)])
def test_thousands_and_spaces_before_per_cent(text: str, value: float) -> None:
    found = number(text)
    assert found is not None
    assert found.value == pytest.approx(value)
