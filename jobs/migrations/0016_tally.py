"""Where a relay keeps its count of many rows, for whoever asks."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0015_schedule_words")]
    operations = [
        migrations.CreateModel(
            name="KeptTally",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField()),
                ("rows", models.JSONField()),
            ],
            options={"db_table": "jobs_tally", "default_permissions": ()},
        ),
    ]
