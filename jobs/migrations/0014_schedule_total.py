from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0013_purge"),
    ]

    operations = [
        migrations.CreateModel(
            name="ScheduleTotal",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=100)),
                ("result", models.CharField(max_length=20)),
                ("count", models.BigIntegerField()),
            ],
            options={
                "db_table": "jobs_schedule_total",
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        models.F("name"),
                        models.F("result"),
                        name="jobs_schedule_total_result",
                    )
                ],
            },
        ),
    ]
