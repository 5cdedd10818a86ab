"""The hash of measuring code by the first rule, which took every byte; code that has not changed since still has it."""

from __future__ import annotations

from functools import cache

from paceline.frameworks import folders
from paceline.worker_code import code_hash, contents, hash_of

EDITS = {  # of the worker half since then: what it says now, and what it said
    "paceline_worker/graph.py": ((" for field in fields(op) if field.name in node}", " for field in fields(op)}"),),
    "paceline_worker/protocol.py": (
        ("JOB_FORMAT = 1  # raised when an older worker would take a job for something else\n", ""),
        ('return {"format": JOB_FORMAT, **asdict(self)}', "return asdict(self)"),
        (
            '''        """Also a job of an older version, which lacks the fields that came later."""
        told = dict(value)
        if told.pop("format", 1) > JOB_FORMAT:
            raise ValueError(f"This job has format {value['format']}, and Paceline here reads up to {JOB_FORMAT}.")
        recipe: Dict[str, Any] = dict(told["recipe"])
        recipe["decayed"] = tuple(recipe.get("decayed", Recipe.decayed))
        recipe["drops"] = tuple((start, factor) for start, factor in recipe.get("drops", ()))
        told["recipe"] = Recipe(**recipe)
        told.update({name: tuple(told[name]) for name in ("devices", "shares", "rates", "slow") if name in told})
        told["cores"] = tuple(tuple(row) for row in told["cores"])
        return cls(**told)
''',
            """        drops = tuple((start, factor) for start, factor in value["recipe"]["drops"])
        recipe = Recipe(**{**value["recipe"], "decayed": tuple(value["recipe"]["decayed"]), "drops": drops})
        tuples = {name: tuple(value[name]) for name in ("devices", "shares", "rates", "slow")}
        cores = tuple(tuple(row) for row in value["cores"])
        return cls(**{**value, **tuples, "recipe": recipe, "cores": cores})
""",
        ),
    ),
}


@cache
def older_code_hash(framework: str) -> str:
    """Of all bytes, as they were before those edits."""
    return hash_of({place: before_edits(place, content) for place, content in contents(framework).items()})


def same_code(framework: str, one: str, other: str) -> bool:
    """Whether two hashes of a framework's measuring code, by the rule of then or of now, are of the same code."""
    name = framework.partition("+")[0]
    if one == other or name not in folders():
        return one == other
    return {one, other} == {code_hash(name), older_code_hash(name)}


def before_edits(place: str, content: bytes) -> bytes:
    text = content
    for now, then in EDITS.get(place, ()):
        text = text.replace(now.encode(), then.encode())
    return text
