"""The relay takes due rows lane by lane: bulk that waits must not be read over at each step."""

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("jobs", "0007_dead_job")]
    operations = [
        AddIndexConcurrently(
            model_name="outboxrow",
            index=models.Index(
                models.F("lane"),
                models.F("available_at"),
                models.F("id"),
                condition=models.Q(("dead_at__isnull", True), ("relayed_at__isnull", True)),
                name="jobs_outbox_lane",
            ),
        ),
        RemoveIndexConcurrently(model_name="outboxrow", name="jobs_outbox_due"),
        migrations.AlterField(
            model_name="outboxrow",
            name="lane",
            field=models.CharField(default="tickets", max_length=10),
        ),
    ]
