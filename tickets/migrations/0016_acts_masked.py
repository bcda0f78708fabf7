from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tickets", "0015_deleted_files")]

    operations = [
        migrations.AddField(
            model_name="buyeract",
            name="masked_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddIndex(
            model_name="buyeract",
            index=models.Index(
                models.F("id"),
                condition=models.Q(("masked_at", None), ("what", "rename")),
                name="buyer_act_unmasked",
            ),
        ),
        migrations.AddIndex(
            model_name="noticedelivery",
            index=models.Index(
                models.F("id"), condition=models.Q(("masked_at", None)), name="notice_unmasked"
            ),
        ),
    ]
