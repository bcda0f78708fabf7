from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0017_sample_done")]

    operations = [
        migrations.AddIndex(
            model_name="outboxrow",
            index=models.Index(
                models.F("id"),
                condition=models.Q(("discarded_at__isnull", False)),
                name="jobs_outbox_discarded",
            ),
        ),
    ]
