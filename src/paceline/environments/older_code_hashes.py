"""Hashes of measuring code by the older rule, which took every byte, for as long as the code trains the same."""

from __future__ import annotations

from functools import cache

from paceline.catalog.frameworks import folders
from paceline.environments.worker_code import code_hash

# Today's hash, and that of the last code with older keys. Between them only `verify`, the reading of jobs, neon and the
# place of shared code have changed, and mxnet refuses some pools that no network of ours has. Delete a line when its
# first hash is no longer today's: such code may measure something else.
SAME_TRAINING = {
    "fake": ("cec4fb2bc54e", "6679c6d81b2e"),
    "jax": ("379fd25cc64b", "4aee973e5583"),
    "keras-jax": ("4de7d5f6809d", "1f3b1353442e"),
    "keras-mxnet": ("d15f6a352a23", "ee164c6ab6cf"),
    "keras-tensorflow": ("2f1e065c9baf", "c465ed47233a"),
    "keras-torch": ("507e8038fc25", "feaab2d65bbf"),
    "mxnet": ("0b2180e62835", "c5dddbd6f7d6"),
    "tensorflow": ("f7c15502e569", "cf629b7ea622"),
    "tensorpack": ("b6de2c09bb0f", "631f535cf2dc"),
    "torch": ("35bd7649c85e", "cee2c818f399"),
}


@cache
def older_code_hash(framework: str) -> str:
    """Empty where the code of then would measure something else."""
    now, then = SAME_TRAINING.get(framework, ("", ""))
    return then if now and code_hash(framework) == now else ""


def same_code(framework: str, one: str, other: str) -> bool:
    """Whether two hashes of a framework's measuring code, by either rule, are of the same code."""
    name = framework.partition("+")[0]
    if one == other or name not in folders():
        return one == other
    return bool(one and other) and {one, other} == {code_hash(name), older_code_hash(name)}
