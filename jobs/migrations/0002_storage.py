"""How PostgreSQL keeps the queue: room for updates in the page, vacuum by count of rows."""

from django.db import migrations

QUEUE = """
ALTER TABLE jobs_outbox SET (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 2000
);
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0001_initial")]
    operations = [migrations.RunSQL(QUEUE, migrations.RunSQL.noop)]
