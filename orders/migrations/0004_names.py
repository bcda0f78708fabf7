"""Orders are found by name. Built beside the sale: checkout does not wait for it."""

import django.contrib.postgres.indexes
import django.db.models.functions.text
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

import orders.models

# It waits for every transaction that is older than itself, and reads the table twice.
BOUNDS = ("lock_timeout", "statement_timeout")
UNBOUND = tuple(f"SET {name} = 0" for name in BOUNDS)
BOUND = tuple(f"RESET {name}" for name in BOUNDS)
# What a run that was cut leaves: an index that is not valid, and in the way of the next run.
LEFT_OVER = tuple(
    f"DROP INDEX CONCURRENTLY IF EXISTS {name}" for name in ("order_name", "order_last_name")
)


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("orders", "0003_refunds")]
    operations = [
        migrations.RunSQL(UNBOUND, BOUND),
        migrations.RunSQL(LEFT_OVER, migrations.RunSQL.noop),
        AddIndexConcurrently(
            model_name="order",
            index=models.Index(
                django.contrib.postgres.indexes.OpClass(
                    django.db.models.functions.text.Left(
                        django.db.models.functions.text.Lower("buyer_name"), 100
                    ),
                    name="text_pattern_ops",
                ),
                name="order_name",
            ),
        ),
        AddIndexConcurrently(
            model_name="order",
            index=models.Index(
                django.contrib.postgres.indexes.OpClass(
                    django.db.models.functions.text.Left(
                        django.db.models.functions.text.Lower(orders.models.LastWord("buyer_name")),
                        100,
                    ),
                    name="text_pattern_ops",
                ),
                name="order_last_name",
            ),
        ),
        migrations.RunSQL(BOUND, UNBOUND),
    ]
