"""Pauses of schedules are kept when they are over: a due time in one is no missed one."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0011_processed_at"),
    ]

    operations = [
        migrations.AddField(
            model_name="schedulepause",
            name="resumed_by",
            field=models.CharField(blank=True, db_default="", max_length=200),
        ),
        migrations.AddField(
            model_name="schedulepause",
            name="until",
            field=models.DateTimeField(null=True),
        ),
        migrations.AlterField(
            model_name="scheduledrun",
            name="result",
            field=models.CharField(max_length=20),
        ),
        migrations.AlterField(
            model_name="schedulepause",
            name="name",
            field=models.CharField(max_length=100),
        ),
        migrations.AddConstraint(
            model_name="schedulepause",
            constraint=models.UniqueConstraint(
                models.F("name"),
                condition=models.Q(("until__isnull", True)),
                name="jobs_schedule_pause_open",
            ),
        ),
    ]
