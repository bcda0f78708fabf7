"""How much was done in a minute, without reading the whole table; built beside the workers."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("jobs", "0010_sample")]
    operations = [
        AddIndexConcurrently(
            model_name="processedjob",
            index=models.Index(models.F("processed_at"), name="jobs_processed_at"),
        ),
    ]
