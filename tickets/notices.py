"""The only writer of notices: words for staff, made once for a day, and the email to each of them.

Told are the members of the group REPORT_GROUP who may log in and have an address.
"""

from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.template.loader import render_to_string
from django.utils import timezone

from jobs.outbox import enqueue
from orders.money import in_words
from orders.sales import Sales, totals

from . import deliveries, mail, repeats
from .models import Notice, NoticeDelivery, NoticeKind
from .stock_check import Difference


def readers() -> QuerySet[User]:
    """Whom notices are for, now."""
    members = User.objects.filter(is_active=True, groups__name=settings.REPORT_GROUP)
    return members.exclude(email="").order_by("pk")


def is_old(notice: Notice) -> bool:
    """Whether it is told to nobody any more: it is not known any more who was."""
    return notice.made_at < timezone.now() - timedelta(days=settings.PERSONAL_DAYS)


def tell_sales(day: date, sales: Sequence[Sales], outbox_id: int) -> bool:
    """Inside `effects()`: the notice of that day's sales, and the job of each email. False, and
    nothing written, where it was told already."""
    sums = [
        (code, in_words(amount, code), in_words(back, code))
        for code, (amount, back) in totals(sales).items()
    ]
    rows = [
        (one, in_words(one.amount, one.currency), in_words(one.paid_back, one.currency))
        for one in sales
    ]
    subject = f"Sales of {day:%A}, {day.day} {day:%B %Y}"
    return _tell(NoticeKind.SALES, day, outbox_id, subject, {"rows": rows, "sums": sums})


def tell_stock(day: date, found: Sequence[Difference], outbox_id: int) -> bool:
    """Inside `effects()`: the same of counts that differ; once a day."""
    return _tell(NoticeKind.STOCK, day, outbox_id, "Places and tickets differ", {"found": found})


def _tell(kind: NoticeKind, day: date, outbox_id: int, subject: str, about: dict[str, Any]) -> bool:
    context = {"day": day, "zone": settings.SHOP_ZONE, "shop": settings.SHOP_NAME, **about}
    words = {
        "subject": mail.header(f"{settings.SHOP_NAME}: {subject}"),
        "text": render_to_string(f"emails/staff/{kind}.txt", context),
        "html": render_to_string(f"emails/staff/{kind}.html", context),
    }
    notice, created = Notice.objects.get_or_create(
        kind=kind, day=day, defaults={**words, "outbox_id": outbox_id}
    )
    for pk in readers().values_list("pk", flat=True) if created else ():
        enqueue("email_staff", notice_id=notice.pk, user_id=pk)
    return created


def begin(notice: Notice, user: User, outbox_id: int) -> NoticeDelivery:
    """T7: the email to that person, at the present address, and its first try, committed before
    the provider is called. A later try gets the row of the first one."""
    key = mail.idempotency_key(notice.day.isoformat(), f"staff-{notice.kind}", 1, user.email)
    with transaction.atomic(durable=True):
        delivery, created = NoticeDelivery.objects.get_or_create(
            notice=notice,
            recipient=user.email,
            defaults={
                "message_id": mail.message_id(key),
                "idempotency_key": key,
                "subject": notice.subject,
                "text": notice.text,
                "html": notice.html,
                "outbox_id": outbox_id,
                **deliveries.first_try(),
            },
        )
    delivery.call_noted = created and settings.MAIL_KEY_WINDOW > 0
    return delivery


def begin_again(pairs: Iterable[tuple[int, int]]) -> None:
    """In the replay of their jobs, of ids of notices and users: a person accepts that these
    may come twice."""
    begun = {email.pk for email in begun_emails(pairs).values()}
    repeats.allow_again(NoticeDelivery.objects.filter(pk__in=begun))


def begun_emails(pairs: Iterable[tuple[int, int]]) -> dict[tuple[int, int], NoticeDelivery]:
    """Of ids of notices and users: the emails that were begun, without their words."""
    wanted = set(pairs)
    found = NoticeDelivery.objects.filter(notice__in={notice for notice, _ in wanted})
    by_address = {(one.notice_id, one.recipient): one for one in found.defer("text", "html")}
    users = User.objects.in_bulk({user for _, user in wanted})
    return {
        (notice, pk): by_address[notice, users[pk].email]
        for notice, pk in wanted
        if pk in users and (notice, users[pk].email) in by_address
    }
