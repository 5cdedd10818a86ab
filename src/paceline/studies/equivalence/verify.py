"""Proof that frameworks train the same network: each is compared, quantity by quantity, with the reference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from paceline.catalog.frameworks import Contestant
from paceline.environments.virtual_environments import Say
from paceline.environments.worker_code import code_hash
from paceline.plan.shares import EQUAL
from paceline.store.records.certificate import Certificate, Divergence
from paceline.studies.equivalence import dropout
from paceline.studies.equivalence.probing import Arrays, Probe, probe, reference_probe
from paceline.studies.equivalence.tolerances import Judge, finding, findings_of
from paceline.studies.equivalence.verification_cases import VerificationCase
from paceline.system.machine.hardware import Machine
from paceline_worker.graph import Graph
from paceline_worker.protocol import Job

STEPS = 5


DECAY_FACTOR = 100.0  # a weight decay so large that a wrong exclusion shows in one step
# The further steps are so small that the first of them lowers the loss by about so much. At the recipe's rate random
# labels make a deep network chaotic: there rounding grows a thousandfold from step to step, and nothing can be told.
GENTLE_DROP = 0.03


@dataclass(frozen=True)
class Verification:
    """What all frameworks are asked, and what the reference answered."""

    workload: str
    devices: str
    machine: str
    job: Job
    truth: Probe
    shares: str = EQUAL
    dropping: Graph | None = None  # the network, if it has dropout: the job is then about the rest of it


def make_verification(case: VerificationCase, machine: Machine, say: Say) -> Verification:
    job = verification_job(case, machine)
    job = gently(job, reference_probe(job, say).arrays)
    return Verification(
        workload=case.workload.name,
        devices=case.devices.name,
        machine=machine.id,
        job=job,
        truth=reference_probe(job, say),
        shares=case.shares,
        dropping=case.workload.graph() if dropout.rates(case.workload.graph()) else None,
    )


def gently(job: Job, shown: Arrays) -> Job:
    """With rates for its steps, from the gradients that the reference has shown."""
    slopes = [array for name, array in shown.items() if name.startswith("gradient/")]
    gentle = GENTLE_DROP / sum(float(np.sum(slope**2)) for slope in slopes)
    return replace(job, rates=(gentle,) * (STEPS - 2) + (gentle / 2,) * 2)  # a change of the rate is seen, too


def verification_job(case: VerificationCase, machine: Machine) -> Job:
    """A few steps on a small batch, one core per device."""
    workload, devices, cores = case.workload, case.devices, machine.cores
    return Job(
        framework="",
        mode="",
        graph=dropout.without(workload.graph()).to_json(),
        classes=workload.classes,
        recipe=replace(workload.recipe, weight_decay=DECAY_FACTOR * workload.recipe.weight_decay),
        devices=devices.devices,
        cores=tuple((cores[index % len(cores)],) for index in range(devices.count)),
        shares=case.images(),
        update=case.update,
        wrapped=case.wrapped,
        data="fake:device",
        precision=case.precision,
        seed=1,
        steps=STEPS,
        warmup=0,
        block_steps=STEPS,
        patience_seconds=300.0,
        epoch_images=workload.images_per_epoch,
    )


def verify(contestant: Contestant, verification: Verification, say: Say) -> Certificate:
    """Compare a framework with what the reference showed for the same job."""
    seen = probe(contestant, verification.job, say)
    failure = seen.failure
    findings: tuple[Divergence, ...] = () if failure else tuple(compare_with_reference(seen, verification, say))
    if verification.dropping is not None and not failure:
        dropped, failure = dropout_findings(contestant, verification.job, verification.dropping, say)
        findings = () if failure else (*findings, *dropped)
    return Certificate(
        workload=verification.workload,
        framework=contestant.name,
        devices=verification.devices,
        version=seen.environment.packages.get(contestant.framework.package, "?"),
        fingerprint=seen.environment.fingerprint,
        worker_code=code_hash(contestant.framework.name),
        machine=verification.machine,
        update=verification.job.update,
        precision=verification.job.precision,
        shares=verification.shares,
        wrapped=verification.job.wrapped,
        equal=not failure and all(finding.diverges_at is None for finding in findings),
        findings=findings,
        failure=failure,
    )


def compare_with_reference(seen: Probe, verification: Verification, say: Say) -> Iterator[Divergence]:
    """Layer by layer on what the framework itself gave so far, and from end to end on its own."""
    yield from findings_of(seen.arrays, verification.truth.arrays, verification.job, by_reference(say))


def by_reference(say: Say) -> Judge:
    return lambda job, given, task: reference_probe(job, say, given, task).arrays


def dropout_findings(
    contestant: Contestant, job: Job, dropping: Graph, say: Say
) -> tuple[tuple[Divergence, ...], str | None]:
    """Of a network that drops values, which is a question of its own; or why it could not be seen."""
    network, cell = dropout.network_job(job, dropping), dropout.cell_job(job, dropping)
    shown = [probe(contestant, each, say, task=dropout.TASK) for each in (network, cell)]
    failure = next((each.failure for each in shown if each.failure), None)
    if failure:
        return (), failure
    checks = dropout.checks(network, shown[0].arrays, cell, shown[1].arrays, by_reference(say))
    return tuple(finding(check.quantity, check.tolerance, check.differences) for check in checks), None
