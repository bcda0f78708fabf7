import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("orders", "0004_names")]

    operations = [
        migrations.AlterModelOptions(
            name="event",
            options={
                "ordering": ("starts_at",),
                "permissions": [
                    ("publish_event", "Can publish and close events"),
                    ("move_event", "Can move events to another time"),
                    ("cancel_event", "Can cancel events and refund their orders"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Announcement",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.PositiveSmallIntegerField()),
                (
                    "kind",
                    models.CharField(
                        choices=[("moved", "moved"), ("cancelled", "cancelled")], max_length=10
                    ),
                ),
                ("words", models.TextField(blank=True, default="")),
                ("reason", models.CharField(blank=True, default="", max_length=500)),
                ("by", models.CharField(max_length=200)),
                ("request_id", models.CharField(blank=True, default="", max_length=64)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("old_starts_at", models.DateTimeField()),
                ("old_doors_minutes", models.PositiveSmallIntegerField()),
                ("starts_at", models.DateTimeField()),
                ("doors_minutes", models.PositiveSmallIntegerField()),
                ("last_order_id", models.BigIntegerField()),
                ("cursor", models.BigIntegerField(default=0)),
                ("told", models.PositiveIntegerField(default=0)),
                ("total", models.PositiveIntegerField()),
                ("done_at", models.DateTimeField(null=True)),
                (
                    "event",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="announcements",
                        to="orders.event",
                    ),
                ),
            ],
            options={
                "ordering": ("event_id", "number"),
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint("event", "number", name="announcement_number")
                ],
            },
        ),
    ]
