"""What staff read as the list of dead jobs: one view over both tables."""

from django.db import migrations

DEAD_JOB = """
CREATE VIEW jobs_dead_job AS
SELECT *, split_part(error, ':', 1) AS error_class,
    left(regexp_replace(left(error, 200), '[0-9]+', '#', 'g'), 160) AS same_error
FROM (
    SELECT id, kind, subject, request_id, attempts, deliveries, due_at, dead_at,
        dead_reason AS reason, coalesce(nullif(last_error, ''), dead_reason) AS error,
        dead_by AS worker
    FROM jobs_outbox WHERE dead_at IS NOT NULL AND discarded_at IS NULL
    UNION ALL
    SELECT -id, kind, '', '', 0, deliveries, refused_at, refused_at, reason, reason, worker
    FROM jobs_refused_entry WHERE settled_at IS NULL
) AS dead
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0006_dead_index")]
    operations = [migrations.RunSQL(DEAD_JOB, "DROP VIEW jobs_dead_job")]
