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


register(
    Rule(
        "every due slot that fired has its job",
        f"""
        SELECT name || ' of ' || due_at FROM jobs_scheduled_run AS slot
        WHERE CASE WHEN result IN ('on time', 'caught up', 'by hand')
            THEN decided_at >= {purged("processed", "discarded")}
                AND NOT EXISTS (SELECT FROM jobs_outbox WHERE id = outbox_id)
                AND NOT EXISTS (
                    SELECT FROM jobs_processed AS job WHERE job.outbox_id = slot.outbox_id)
            ELSE outbox_id IS NOT NULL END
        ORDER BY slot.id
        """,  # noqa: S608 (constants)
    ),
    Rule(
        "every job that a schedule fired has one due slot, of its time",
        """
        SELECT 'job ' || job.id FROM (
            SELECT id, scheduled_for FROM jobs_outbox WHERE scheduled_for IS NOT NULL
            UNION ALL
            SELECT outbox_id, scheduled_for FROM jobs_processed WHERE scheduled_for IS NOT NULL
        ) AS job
        LEFT JOIN jobs_scheduled_run AS slot ON slot.outbox_id = job.id
        GROUP BY job.id, job.scheduled_for
        HAVING count(slot.id) <> 1 OR bool_or(slot.due_at <> job.scheduled_for)
        ORDER BY job.id
        """,
    ),
)
