"""How many jobs were done in a minute, added up when it is sampled: a week of them is read fast."""

from django.db import migrations, models

FILL = """
UPDATE jobs_sample SET done = (
    SELECT coalesce(sum((one.value->>0)::int), 0) FROM jsonb_each(finished) AS one)
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0016_tally")]
    operations = [
        migrations.AddField("sample", "done", models.PositiveIntegerField(db_default=0)),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
    ]
