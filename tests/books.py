"""The books after a test: what `manage.py audit` would say, with nothing too young to be asked."""

from django.conf import settings
from django.utils.module_loading import autodiscover_modules

from jobs.audit import audit


def books_are_in_order() -> None:
    """Fail, with what is broken, unless every job and every effect is accounted for at once.

    Jobs may still run, wait or be dead. Needs `django_db(transaction=True)`.
    """
    autodiscover_modules("audit")
    report = audit(settings.REDIS_URL, after=0.0, pause=settings.JOBS["AUDIT_PAUSE"])
    assert report.exit_code == 0, f"the books are not in order\n{report}"
