"""What always holds in the database: one SELECT for each rule."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """What always holds. `sql` selects one text column: each thing that breaks it, by its key."""

    name: str
    sql: str


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
