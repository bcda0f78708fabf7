"""Migrations expand, then contract: the release before still works on the tables of this one."""

import re
from collections.abc import Iterator

import pytest
from django.db import models
from django.db.migrations import Migration
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations import (
    AddField,
    AlterField,
    AlterModelTable,
    CreateModel,
    DeleteModel,
    RemoveField,
    RenameField,
    RenameModel,
    RunSQL,
)
from django.db.migrations.operations.base import Operation

from stagedoor import __version__

OURS = ("jobs", "orders", "tickets", "stagedoor")
TAKES_AWAY = (RemoveField, DeleteModel, RenameField, RenameModel, AlterModelTable)
TAKES_AWAY_IN_SQL = re.compile(r"\bDROP\s+(TABLE|COLUMN)\b|\bRENAME\b|\bSET\s+NOT\s+NULL\b", re.I)


def ours() -> Iterator[tuple[str, Migration]]:
    """Every migration of the product, by its name."""
    for (app, name), migration in MigrationLoader(None).disk_migrations.items():
        if app in OURS:
            yield f"{app}.{name}", migration


def breaks_older_code(operation: Operation) -> str:
    """What the release before would trip over; empty where it would not."""
    if isinstance(operation, TAKES_AWAY):
        return "takes away what the release before may still read"
    if isinstance(operation, AddField) and not _may_be_left_out(operation.field):
        return "asks for a value that the release before does not write"
    if isinstance(operation, RunSQL) and TAKES_AWAY_IN_SQL.search(str(operation.sql)):
        return "takes away, by SQL, what the release before may still read"
    return ""


def _of_a_new_table(operation: Operation, migration: Migration) -> bool:
    made = {one.name_lower for one in migration.operations if isinstance(one, CreateModel)}
    return isinstance(operation, AddField) and operation.model_name_lower in made


def _may_be_left_out(field: models.Field[object, object]) -> bool:
    return field.null or field.many_to_many or field.has_db_default() or field.generated


def problems() -> dict[str, str]:
    """Migrations that break the rule, and how."""
    return {
        f"{name}: {operation.describe()}": problem
        for name, migration in ours()
        if not hasattr(migration, "contracts")
        for operation in migration.operations
        if not _of_a_new_table(operation, migration)
        if (problem := breaks_older_code(operation))
    }


def test_no_migration_takes_away_what_the_release_before_needs() -> None:
    """A later one may: it says `contracts = "0.2.0"`, the last release that needed it."""
    assert problems() == {}


def test_what_contracts_does_so_a_release_later() -> None:
    for name, migration in ours():
        last = getattr(migration, "contracts", None)
        assert last is None or _number(last) < _number(__version__), name


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


TEXT: models.Field[object, object] = models.TextField()


@pytest.mark.parametrize(
    "operation",
    [
        RemoveField("order", "email"),
        RenameField("order", "email", "address"),
        DeleteModel("order"),
        AddField("order", "colour", TEXT),
        RunSQL("ALTER TABLE orders_order DROP COLUMN email"),
        RunSQL(["ALTER TABLE orders_order", "ALTER TABLE o RENAME COLUMN email TO address"]),
    ],
)
def test_what_breaks_the_release_before_is_seen(operation: Operation) -> None:
    assert breaks_older_code(operation)


@pytest.mark.parametrize(
    "operation",
    [
        AddField("order", "colour", models.TextField(null=True)),
        AddField("order", "colour", models.TextField(db_default="")),
        AlterField("order", "email", TEXT),
        RunSQL("CREATE INDEX CONCURRENTLY order_name ON orders_order (name)"),
    ],
)
def test_what_only_adds_is_let_pass(operation: Operation) -> None:
    assert not breaks_older_code(operation)
