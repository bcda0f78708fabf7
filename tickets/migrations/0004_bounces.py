"""An email that was accepted can come back; when a call began that may have been taken."""

from django.db import migrations, models

BOUNCES = [
    ("invalid", "the address does not exist"),
    ("bounced", "the address does not exist, or its mailbox is full"),
    ("blocked", "the provider or the recipient's server blocks it"),
    ("timed_out", "the recipient's server did not answer"),
    ("spam", "it was taken for spam"),
    ("unsubscribed", "this address wants no email from us"),
    ("other", "the provider gives no reason"),
]
STATES = ["queued", "sent", "uncertain", "failed", "bounced"]


class Migration(migrations.Migration):
    dependencies = [("tickets", "0003_history")]
    operations = [
        migrations.AddField(
            "delivery",
            "bounce",
            models.CharField(blank=True, choices=BOUNCES, db_default="", max_length=20),
        ),
        migrations.AddField("delivery", "bounced_at", models.DateTimeField(null=True)),
        migrations.AddField("delivery", "called_at", models.DateTimeField(null=True)),
        migrations.AlterField(
            "delivery",
            "state",
            models.CharField(
                choices=[(name, name) for name in STATES], default="queued", max_length=10
            ),
        ),
    ]
