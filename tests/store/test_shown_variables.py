"""Of the variables that a run has kept, only those that are known to be harmless are shown."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from paceline.analysis.comparison.differences import RunPair, differences
from paceline.bundles.exporting import export_bundle
from paceline.bundles.messages import written
from paceline.bundles.selection import BundleRequest
from paceline.catalog.frameworks import all_frameworks
from paceline.environments.worker_variables import INHERITED, worker_environment
from paceline.report.page.report_page import write_report
from paceline.report.server.run_page import one_run
from paceline.run.session import is_kept
from paceline.store.index.setups import setup_of
from paceline.store.shown_variables import HIDDEN, harmless, shown_variables
from paceline.store.store import Store
from paceline.system.errors import UserError
from tests.bundles.made import FIRST, elsewhere, of_machine, save
from tests.factories.runs import CELL, save_plan

SECRETS = (
    *("AWS_KEY", "GITHUB_PAT", "DB_PASSWORD", "SECRET_TOKEN", "AWS_ACCESS_KEY_ID", "HF_HOME_TOKEN", "DATABASE_URL"),
    *("TF_VAR_db", "TF_TOKEN_x", "TF_API", "KERAS_LICENSE", "JAX_PAT", "TORCH_HUB_KEY", "WANDB", "SSH_AUTH_SOCK"),
    *("OMP_SECRET", "NCCL_TOKEN", "XLA_KEY", "CUDA_PASSWORD", "MXNET_KVSTORE_PAT", "DMLC_CREDENTIALS", "PGPASS"),
    *("omp_num_threads", "OMP_NUM_THREADS_TOKEN", "PATHS", "XOMP_NUM_THREADS", "", "A=B", "NCCL_\nTOKEN"),
)
HARMLESS = (
    *("OMP_NUM_THREADS", "OMP_PROC_BIND", "MKL_NUM_THREADS", "KMP_AFFINITY", "OPENBLAS_NUM_THREADS", "XLA_FLAGS"),
    *("CUDA_VISIBLE_DEVICES", "NCCL_DEBUG", "NCCL_P2P_DISABLE", "TF_ENABLE_ONEDNN_OPTS", "TF_CPP_MIN_LOG_LEVEL"),
    *("TF_NUM_INTRAOP_THREADS", "TF_XLA_FLAGS", "KERAS_BACKEND", "MXNET_CPU_WORKER_NTHREADS", "JAX_PLATFORMS"),
    *("XLA_PYTHON_CLIENT_PREALLOCATE", "TORCH_NCCL_BLOCKING_WAIT", "TORCHINDUCTOR_FORCE_DISABLE_CACHES", "RANK"),
    *("PYTHONPATH", "PATH", "HOME", "LD_PRELOAD", "MASTER_PORT", "PACELINE_RUN", "DMLC_ROLE", "DMLC_PS_ROOT_URI"),
)


@pytest.mark.parametrize("name", SECRETS)
def test_unknown_variable_is_hidden(name: str) -> None:
    assert not harmless(name, "1")
    assert shown_variables({name: "hunter2"}) == {name: HIDDEN}


@pytest.mark.parametrize("name", HARMLESS)
def test_known_variable_is_shown(name: str) -> None:
    assert harmless(name, "1")


def test_all_that_workers_are_given_is_shown() -> None:
    for framework in all_frameworks().values():
        given = worker_environment(framework, Path("/code"), 2)
        assert shown_variables(given) == given
    assert all(harmless(name, "1") for name in INHERITED)


def test_known_variable_with_a_password_in_it_is_hidden() -> None:
    assert not harmless("MASTER_ADDR", "tcp://me:hunter2@host")
    assert harmless("MASTER_ADDR", "tcp://host:29500")


@pytest.mark.parametrize("name", SECRETS)
def test_measured_command_keeps_no_unknown_variable(name: str) -> None:
    assert not is_kept(name, "hunter2")


def store_with(folder: Path, **variables: str) -> Store:
    store = Store(folder)
    save_plan(store, {CELL: ["one"]})
    save(store, msgspec.structs.replace(of_machine(FIRST, "one", elsewhere()), environment=variables))
    return store


def test_no_page_shows_an_unknown_variable(tmp_path: Path) -> None:
    store = store_with(tmp_path / "store", AWS_KEY="hunter2", GITHUB_PAT="hunter3", OMP_NUM_THREADS="7")
    write_report(store.folder, {}, None, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "hunter" not in page
    assert "OMP_NUM_THREADS=7" in page
    shown = one_run(store, FIRST)
    assert shown
    assert shown.environment == [("AWS_KEY", HIDDEN), ("GITHUB_PAT", HIDDEN), ("OMP_NUM_THREADS", "7")]


def test_difference_of_an_unknown_variable_is_named_without_its_values() -> None:
    run = of_machine(FIRST, "one", elsewhere())
    kept = ({"AWS_KEY": "hunter2", "XLA_FLAGS": "--a"}, {"AWS_KEY": "hunter3", "XLA_FLAGS": "--b", "MY": "hunter4"})
    old, new = (setup_of(msgspec.structs.replace(run, environment=each), Path("/nowhere")) for each in kept)
    assert list(differences([RunPair("fake", [old], [new])])) == [
        "fake variables: AWS_KEY (hidden) → (hidden), MY none → (hidden), XLA_FLAGS --a → --b"
    ]


@pytest.mark.parametrize("name", ["AWS_KEY", "GITHUB_PAT", "TF_TOKEN_x", "PGPASS"])
def test_variable_that_may_be_a_secret_stops_the_export(tmp_path: Path, name: str) -> None:
    store = store_with(tmp_path / "store", **{name: "hunter2"})
    with pytest.raises(UserError, match=f"has kept the variable {name}, which may be a secret"):
        export_bundle(store, BundleRequest(everything=True), tmp_path / "bundle.zip")


def test_export_names_other_unknown_variables(tmp_path: Path) -> None:
    path = tmp_path / "bundle.zip"
    store = store_with(tmp_path / "store", TF_MINE="hunter2", MYFRAME_THREADS="2", OMP_NUM_THREADS="7")
    said = written(export_bundle(store, BundleRequest(everything=True), path), path)
    assert "Its runs have kept the variables MYFRAME_THREADS, TF_MINE" in said
    assert "OMP" not in said
