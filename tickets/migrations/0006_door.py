import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tickets", "0005_called_at"), ("orders", "0005_announcements")]

    operations = [
        migrations.AddField("ticket", "used_at", models.DateTimeField(null=True)),
        migrations.AddField(
            "ticket",
            "used_by",
            models.CharField(blank=True, db_default="", default="", max_length=150),
        ),
        migrations.AlterModelOptions(
            name="ticket",
            options={
                "ordering": ("order_id", "seq"),
                "permissions": [
                    ("export_attendees", "Can export the attendees of an event"),
                    ("scan_ticket", "Can let people in at the door"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Scan",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "answer",
                    models.CharField(
                        choices=[
                            ("valid", "Valid"),
                            ("used", "Used"),
                            ("void", "Void"),
                            ("other", "Other event"),
                            ("which", "Which ticket?"),
                            ("unknown", "No such ticket"),
                        ],
                        max_length=10,
                    ),
                ),
                ("at", models.DateTimeField()),
                ("by", models.CharField(max_length=150)),
                ("key", models.CharField(max_length=32)),
                (
                    "event",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="orders.event",
                    ),
                ),
                (
                    "ticket",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="scans",
                        to="tickets.ticket",
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "indexes": [models.Index("event", "id", name="scan_event")],
            },
        ),
    ]
