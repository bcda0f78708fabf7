"""Due slots are shown to staff as what they are of: schedules."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0014_schedule_total"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="scheduledrun",
            options={
                "default_permissions": ("view",),
                "permissions": [
                    ("run_schedule", "Can have a schedule's job run now"),
                    ("pause_schedule", "Can pause and resume schedules"),
                ],
                "verbose_name": "schedule",
                "verbose_name_plural": "schedules",
            },
        ),
    ]
