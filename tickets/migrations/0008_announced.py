from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tickets", "0007_buyers")]

    operations = [
        migrations.AlterField(
            model_name="delivery",
            name="kind",
            field=models.CharField(
                choices=[
                    ("tickets", "tickets"),
                    ("changed", "changed"),
                    ("refund", "refund"),
                    ("moved", "moved"),
                    ("cancelled", "cancelled"),
                ],
                max_length=20,
            ),
        ),
    ]
