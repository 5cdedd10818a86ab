"""Commands that check: verify for networks, audit for tables."""

from __future__ import annotations

import sys
from typing import Literal

from paceline.cli.application import EXIT_FAILED_CELLS, EXIT_NO_VERDICT, Format, MachineFlag, StoreFlag, WaitFlag, app
from paceline.plan.settings import Single
from paceline.system.paths import default_store


@app.command
def verify(  # noqa: PLR0913 - each is a flag
    *workloads: str,
    framework: str = "all",
    devices: str = "1xcpu",
    update: Literal["replicated", "parameter_server"] = "replicated",
    precision: str = "float32",
    shares: str = "equal",
    single: Single = "plain",
    batch_size: int | None = None,
    wait: WaitFlag = False,
    format: Format = "text",  # noqa: A002 - the flag's name
    machine_name: MachineFlag = None,
    store: StoreFlag = None,
) -> int:
    """Prove that frameworks compute the same network: outputs, gradients, weights and losses against the reference.

    Parameters
    ----------
    workloads
        Such as cifar10-conv; default: cifar10-conv.
    framework
        Such as torch,jax; all stands for every installed one.
    devices
        Device sets, such as 1xcpu,2xcpu or cuda:0; the reference itself is always on the CPU.
    update
        How several devices agree.
    precision
        float32, bfloat16, or both with a comma.
    shares
        How several devices divide the batch: equal, or such as 2:1.
    single
        How one device runs: plain, wrapped (in what several devices need), or both.
    batch_size
        Images of a step on all devices together; default: 16, or 4 for large networks, or what the shares need.
    """
    from paceline.cli.actions import show_certificates, verify_frameworks
    from paceline.studies.equivalence.verification_cases import VerificationMatrix
    from paceline.system.limits import check_flag
    from paceline.system.machine.identity import name_machine
    from paceline.system.machine_lock import alone

    name_machine(machine_name)
    check_flag("--batch-size", batch_size)
    matrix = VerificationMatrix(
        workloads=[part for name in workloads or ("cifar10-conv",) for part in name.split(",")],
        devices=devices.split(","),
        update=update,
        precisions=precision.split(","),
        shares=shares.split(","),
        single=single,
        batch_size=batch_size,
    )
    folder = store or default_store()
    with alone(wait=wait) as measuring:
        measuring.note_plan(folder)
        certificates = verify_frameworks(matrix, framework.split(","))
        return 0 if show_certificates(certificates, format, folder) else EXIT_FAILED_CELLS


@app.command
def audit(
    what: str,
    *,
    format: Format = "text",  # noqa: A002 - the flag's name
) -> int:
    """Recompute a results table, and list the cells that contradict each other.

    It ends with exit code 2 if any do, and with 4 if no figure can be checked.

    Parameters
    ----------
    what
        A Markdown or CSV file, the folder of a store, or published: the figures that Paceline brings along.
    """
    from paceline.report.studies.audits import FORMATS
    from paceline.studies.audit import audit as examine

    found = examine(what)
    sys.stdout.write(FORMATS[format](found))
    if found.findings:
        return EXIT_FAILED_CELLS
    return 0 if found.checked else EXIT_NO_VERDICT
