"""The database between two tests: what they wrote is deleted, what migrations made stays."""

from django.db import connection, transaction

KEPT = ("auth_group", "auth_group_permissions", "auth_permission", "django_content_type")
"""Made by migrations, and hardly ever changed by a test."""
GROWN = 1 << 20
"""Bytes of a table in which deleted rows would slow the tests that follow."""

_made: list[str] = []


def remember() -> None:
    """Take what is in `KEPT` now for what migrations made."""
    _made[:] = _kept()


def delete_rows() -> bool:
    """Delete all rows outside of `KEPT`. False, and nothing done, where that would not do.

    Waits for transactions that still write, e.g. those of a process that was just killed.
    """
    names = set(connection.introspection.django_table_names(only_existing=True))
    with transaction.atomic(), connection.cursor() as cursor:
        if not names.issuperset(KEPT) or _kept() != _made:
            return False
        tables = sorted(names.difference(KEPT))
        cursor.execute(f"LOCK TABLE {', '.join(tables)} IN EXCLUSIVE MODE")
        size = "SELECT '{0}', pg_relation_size('{0}') WHERE EXISTS (SELECT FROM {0})"
        cursor.execute(" UNION ALL ".join(size.format(table) for table in tables))
        written = dict(cursor.fetchall())
        if any(size > GROWN for size in written.values()):
            return False
        if written:
            # As a replica it does not look at foreign keys: the order is no matter.
            cursor.execute("SET LOCAL session_replication_role = replica")
            cursor.execute("; ".join(f"DELETE FROM {table}" for table in written))
    return True


def _kept() -> list[str]:
    """A digest of each of `KEPT`."""
    digest = "SELECT md5(string_agg(t::text, ' ' ORDER BY id)) FROM {} t"
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(digest.format(table) for table in KEPT))
        return [digest for (digest,) in cursor.fetchall()]
