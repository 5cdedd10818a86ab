"""A machine is the same under a new host name, and another one than its equal next door."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from paceline.system.errors import UserError
from paceline.system.machine.hardware import Machine, this_machine
from paceline.system.machine.identity import VARIABLE, identity, in_container, name_machine
from tests.factories.machines import machine

OURS, THEIRS = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PACELINE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path / "home"


def system(folder: Path, machine_id: str | None, *marks: str) -> Path:
    """The root of a system with this id, and with files that tell a container."""
    (folder / "etc").mkdir(parents=True)
    if machine_id is not None:
        (folder / "etc/machine-id").write_text(f"{machine_id}\n")
    for mark in marks:
        (folder / mark).parent.mkdir(exist_ok=True)
        (folder / mark).touch()
    return folder


def identified(name: str, **changes: object) -> Machine:
    return msgspec.structs.replace(machine(), identity=name, **changes)


def test_id_survives_a_new_host_name_where_there_is_an_identity() -> None:
    assert identified("system:1").id == identified("system:1", host="4f2a11c0").id
    assert identified("system:1").id != identified("system:2").id


@pytest.mark.parametrize(
    "change",
    [
        {"processor": "Imaginary 9001"},
        {"gpus": ("T4",)},
        {"memory_bytes": 32 * 2**30},
        {"cores": (0,)},
        {"quota_cores": 2.0},
    ],
    ids=str,
)
def test_other_hardware_is_another_machine(change: dict[str, object]) -> None:
    assert identified("system:1", **change).id != identified("system:1").id


def test_record_without_an_identity_keeps_its_id() -> None:
    old = b"""{"host": "bench", "system": "Linux 6.1.0", "processor": "Imaginary 9000", "cores": [0, 1, 2, 3],
               "memory_bytes": 17179869184, "gpus": [], "gpu_driver": null}"""
    read = msgspec.json.decode(old, type=Machine)
    assert read == machine()
    assert read.id == "14e9f2f6"  # as the version that wrote such records told it
    assert identified("system:1").ids == {identified("system:1").id, read.id}


def test_id_of_the_system_is_hashed(tmp_path: Path) -> None:
    found = identity(system(tmp_path / "ours", OURS), {})
    assert re.fullmatch(r"system:[0-9a-f]{32}", found)
    assert OURS not in found
    assert found != identity(system(tmp_path / "theirs", THEIRS), {})
    assert found == identity(tmp_path / "ours", {})


@pytest.mark.parametrize("machine_id", [None, "", "uninitialized", "0" * 32, "not hexadecimal"])
def test_system_without_an_id_has_one_in_the_home_folder(tmp_path: Path, home: Path, machine_id: str | None) -> None:
    found = identity(system(tmp_path / "root", machine_id), {})
    assert found == f"home:{(home / 'machine-id').read_text().strip()}"
    assert identity(tmp_path / "root", {}) == found


@pytest.mark.parametrize("mark", [".dockerenv", "run/.containerenv", ".singularity.d"])
def test_id_that_came_with_an_image_is_not_believed(tmp_path: Path, mark: str) -> None:
    assert identity(system(tmp_path / "root", OURS, mark), {}).startswith("home:")


def test_nodes_that_share_a_home_are_told_apart_in_containers_that_keep_the_name_of_their_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apptainer, docker = (system(tmp_path / mark, OURS, mark) for mark in (".singularity.d", ".dockerenv"))
    found = []
    for node in ("node-1", "node-2", "node-1"):
        monkeypatch.setattr("platform.node", lambda node=node: node)
        found.append((identity(apptainer, {}), identity(docker, {})))
    assert found[0] == found[2]
    assert found[0][0] != found[1][0]
    assert found[0][1] == found[1][1]  # there the name is the container's, and a new one each time


def test_container_is_known_by_its_variables_and_its_root(tmp_path: Path) -> None:
    root = system(tmp_path / "root", OURS)
    assert not in_container(root, {})
    assert in_container(root, {"container": "podman"})
    assert in_container(root, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    (root / "proc/self").mkdir(parents=True)
    mounts = "22 27 0:21 / /proc rw,relatime - proc proc rw\n31 20 0:29 / / rw,relatime {} - {} {} rw,lowerdir=/a:/b\n"
    (root / "proc/self/mountinfo").write_text(mounts.format("shared:4", "ext4", "/dev/sda1"))
    assert not in_container(root, {})
    (root / "proc/self/mountinfo").write_text(mounts.format("master:4", "overlay", "overlay"))
    assert in_container(root, {})


def test_two_homes_are_two_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = system(tmp_path / "root", None)
    first = identity(root, {})
    monkeypatch.setenv("PACELINE_HOME", str(tmp_path / "another"))
    assert identity(root, {}) != first


def test_processes_that_start_together_agree(tmp_path: Path, home: Path) -> None:
    root = system(tmp_path / "root", None)
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: identity(root, {}), range(40)))) == 1
    assert [file.name for file in home.iterdir()] == ["machine-id"]


def test_home_that_cannot_be_written_leaves_the_host_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PACELINE_HOME", str(tmp_path / "file" / "home"))
    assert identity(system(tmp_path / "root", None), {}) == ""
    assert identified("").id == machine().id


@pytest.mark.parametrize("content", [b"", b"\xff\x00rubbish", b"0" * 32])
def test_damaged_id_in_the_home_folder_is_made_anew(tmp_path: Path, home: Path, content: bytes) -> None:
    home.mkdir()
    (home / "machine-id").write_bytes(content)
    root = system(tmp_path / "root", None)
    assert re.fullmatch("home:[0-9a-f]{32}", identity(root, {}))
    assert identity(root, {}) == identity(root, {})


def test_name_by_the_user_comes_first(tmp_path: Path) -> None:
    assert identity(system(tmp_path / "root", OURS), {VARIABLE: "node-1"}) == "name:node-1"
    assert identity(tmp_path / "root", {VARIABLE: ""}).startswith("system:")
    assert identified("name:node-1").description.startswith("node-1, Imaginary 9000, 4 cores, 16 GiB")


def test_flag_names_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    before = this_machine()
    name_machine(None)
    assert this_machine() == before
    monkeypatch.setenv(VARIABLE, "")  # put back in the end
    name_machine("node-1")
    assert this_machine().identity == "name:node-1"
    assert this_machine().id != before.id


@pytest.mark.parametrize("name", ["", "two words", "a\nb", "x" * 61, "\u202e", "<b>", "a|b"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="is no name for a machine; take up to 60 letters, digits and"):
        name_machine(name)
