from django.db import migrations, models

FOLLOWED_UP = """
UPDATE orders_refund SET outbox_id = (
    SELECT max(outbox_id) FROM jobs_processed
    WHERE kind = 'refund_order' AND subject = 'order:' || order_id
)
"""
"""Until now the job of a refund told the buyer itself."""


class Migration(migrations.Migration):
    dependencies = [
        ("orders", "0005_announcements"),
        ("jobs", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="event",
            name="refunds_until",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="refund",
            name="number",
            field=models.PositiveSmallIntegerField(db_default=1, default=1),
        ),
        migrations.AddField(
            model_name="refund",
            name="provider_id",
            field=models.CharField(blank=True, db_default="", default="", max_length=200),
        ),
        migrations.AddField(
            model_name="refund",
            name="failure",
            field=models.CharField(blank=True, db_default="", default="", max_length=200),
        ),
        migrations.AddField(
            model_name="refund",
            name="tried_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="refund",
            name="settled_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="refund",
            name="outbox_id",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddConstraint(
            model_name="refund",
            constraint=models.UniqueConstraint("order", "number", name="refund_number"),
        ),
        migrations.RunSQL(FOLLOWED_UP, migrations.RunSQL.noop),
    ]
