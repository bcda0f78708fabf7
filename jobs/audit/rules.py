"""What always holds in the database: one SELECT for each rule."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """What always holds. `sql` selects one text column: each thing that breaks it, by its key."""

    name: str
    sql: str


def purged(*shelves: str) -> str:
    """SQL: since when all of these shelves are whole. What is older need not have its rows."""
    names = ", ".join(f"'{name}'" for name in shelves)
    return (
        "(SELECT coalesce(max(until), '-infinity') FROM jobs_purge "  # noqa: S608 (constants)
        f"WHERE shelf IN ({names}))"
    )


PURGED = purged("processed")
"""The same of processed rows."""
_rules: dict[str, Rule] = {}


def register(*rules: Rule) -> None:
    """Have `audit()` check these too. Raises ValueError for a name that is taken."""
    for rule in rules:
        if rule.name in _rules:
            raise ValueError(f"there is a rule {rule.name!r} already")
        _rules[rule.name] = rule


def registered() -> list[Rule]:
    """Every rule, in the order of registration."""
    return list(_rules.values())


register(
    Rule(
        "no processed row is also in the outbox",
        """
        SELECT 'outbox row ' || id FROM jobs_processed JOIN jobs_outbox ON id = outbox_id
        ORDER BY id
        """,
    )
)
