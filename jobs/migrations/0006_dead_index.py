"""Built beside the sale: enqueue() does not wait for it."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("jobs", "0005_dead_letters")]
    operations = [
        AddIndexConcurrently(
            model_name="outboxrow",
            index=models.Index(
                condition=models.Q(("dead_at__isnull", False), ("discarded_at__isnull", True)),
                fields=["-dead_at"],
                name="jobs_outbox_dead",
            ),
        ),
    ]
