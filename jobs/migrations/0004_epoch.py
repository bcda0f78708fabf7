from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0003_refused_entry")]

    operations = [
        migrations.CreateModel(
            name="QueueEpoch",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("value", models.CharField(max_length=64)),
            ],
            options={"db_table": "jobs_epoch"},
        ),
    ]
