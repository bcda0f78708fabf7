"""Calls before 0004 are told as they were; deliveries are found by the provider's id.

Built beside the sale, in a migration of its own: 0004 has locked the table against every reader.
"""

from django.apps.registry import Apps
from django.conf import settings
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

# It waits for every transaction that is older than itself, and reads the table twice.
BOUNDS = ("lock_timeout", "statement_timeout")
UNBOUND = tuple(f"SET {name} = 0" for name in BOUNDS)
BOUND = tuple(f"RESET {name}" for name in BOUNDS)
# What a run that was cut leaves: an index that is not valid, and in the way of the next run.
LEFT_OVER = "DROP INDEX CONCURRENTLY IF EXISTS delivery_provider_id"
UNDER_A_KEY = "UPDATE tickets_delivery SET tries = 1 WHERE state = 'queued' AND tries = 0"
"""Nothing was written of these calls: the key protected them."""
BEGAN = "UPDATE tickets_delivery SET called_at = first_try_at WHERE tries > 0"


def date_calls(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    if settings.MAIL_KEY_WINDOW:
        editor.execute(UNDER_A_KEY)
    editor.execute(BEGAN)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("tickets", "0004_bounces")]
    operations = [
        migrations.RunSQL(UNBOUND, BOUND),
        migrations.RunPython(date_calls, migrations.RunPython.noop),
        migrations.RunSQL(LEFT_OVER, migrations.RunSQL.noop),
        AddIndexConcurrently(
            "delivery",
            models.Index(
                fields=["provider_id"],
                name="delivery_provider_id",
                condition=models.Q(("provider_id", ""), _negated=True),
            ),
        ),
        migrations.RunSQL(BOUND, UNBOUND),
    ]
