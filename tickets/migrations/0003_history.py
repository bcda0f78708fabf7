"""What was made and tried before 0002 is told as it was.

A migration of its own: it reads whole tables, which 0002 has locked against every reader.
"""

from django.apps.registry import Apps
from django.conf import settings
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

MADE_AT = """
UPDATE tickets_ticketfile AS file SET made_at = processed_at
FROM jobs_processed AS job WHERE job.outbox_id = file.outbox_id
"""
LOST = "UPDATE tickets_delivery SET tries = 1 WHERE state = 'uncertain'"
BEGUN = "UPDATE tickets_delivery SET state = 'uncertain', tries = 1 WHERE state = 'queued'"
"""Of a mail server that knows no keys: the state was written after the loss, or not at all."""


def mark_tries(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    editor.execute(LOST)
    if not settings.MAIL_KEY_WINDOW:
        editor.execute(BEGUN)


class Migration(migrations.Migration):
    dependencies = [("tickets", "0002_resending"), ("jobs", "0001_initial")]
    operations = [
        migrations.RunSQL(["SET LOCAL statement_timeout = 0", MADE_AT], migrations.RunSQL.noop),
        migrations.RunPython(mark_tries, migrations.RunPython.noop),
    ]
