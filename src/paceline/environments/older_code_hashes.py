"""Hashes of measuring code by the older rule, which took every byte, for as long as the code trains the same."""

from __future__ import annotations

from functools import cache

from paceline.catalog.frameworks import folders
from paceline.environments.worker_code import code_hash

# Today's hash, and that of the last code with older keys. Between them only `verify`, the reading of jobs and neon have
# changed. Delete a line when its first hash is no longer today's: such code may measure something else.
SAME_TRAINING = {
    "fake": ("00eb9d3fabe4", "6679c6d81b2e"),
    "jax": ("8c1164d36e93", "4aee973e5583"),
    "keras-jax": ("722529269112", "1f3b1353442e"),
    "keras-mxnet": ("e46107bd66b4", "ee164c6ab6cf"),
    "keras-tensorflow": ("fd099972d95a", "c465ed47233a"),
    "keras-torch": ("a426fee6c692", "feaab2d65bbf"),
    "mxnet": ("1ae17c53dca8", "c5dddbd6f7d6"),
    "tensorflow": ("35c17b2a27f4", "cf629b7ea622"),
    "tensorpack": ("5be31459e7dc", "631f535cf2dc"),
    "torch": ("f2b4ad25aad2", "cee2c818f399"),
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
