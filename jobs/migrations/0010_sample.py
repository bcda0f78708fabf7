"""A row a minute of what the queue was like; workers say how many slots they have."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0009_schedules")]
    operations = [
        migrations.CreateModel(
            name="Sample",
            fields=[
                ("minute", models.DateTimeField(primary_key=True, serialize=False)),
                ("ages", models.JSONField()),
                ("depth", models.JSONField()),
                ("finished", models.JSONField()),
                ("redis", models.BooleanField()),
                ("workers", models.PositiveSmallIntegerField()),
                ("slots", models.PositiveIntegerField()),
                ("busy", models.PositiveIntegerField()),
                ("relays", models.PositiveSmallIntegerField()),
                ("schedulers", models.PositiveSmallIntegerField()),
            ],
            options={
                "verbose_name": "queue",
                "verbose_name_plural": "queue",
                "db_table": "jobs_sample",
                "default_permissions": ("view",),
            },
        ),
        migrations.AddField("process", "slots", models.PositiveSmallIntegerField(db_default=0)),
        migrations.AddField("process", "busy", models.PositiveSmallIntegerField(db_default=0)),
    ]
