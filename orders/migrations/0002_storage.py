"""How PostgreSQL keeps the places: one hot row per ticket type, updated within its page."""

from django.db import migrations

STOCK = "ALTER TABLE orders_stock SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);"


class Migration(migrations.Migration):
    dependencies = [("orders", "0001_initial")]
    operations = [migrations.RunSQL(STOCK, migrations.RunSQL.noop)]
