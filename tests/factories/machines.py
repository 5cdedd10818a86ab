"""Machines that nobody has, so that no test depends on the one it runs on."""

from __future__ import annotations

from paceline.system.machine.hardware import Machine


def machine(*, cores: int = 4, gpus: tuple[str, ...] = (), quota_cores: float | None = None) -> Machine:
    return Machine(
        host="bench",
        system="Linux 6.1.0",
        processor="Imaginary 9000",
        cores=tuple(range(cores)),
        memory_bytes=16 * 2**30,
        gpus=gpus,
        gpu_driver="570.1" if gpus else None,
        quota_cores=quota_cores,
    )
