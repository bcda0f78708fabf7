"""The jobs that tell staff: what was sold, and whether places and tickets still agree."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from django.conf import settings
from django.utils import timezone

from jobs.job import Job
from jobs.policy import GiveUp
from jobs.prognosis import Prognosis
from jobs.registry import Lane, handler
from jobs.schedule import ONCE, Schedule, all_, declare
from orders import sales

from . import emailing, notice_foresight, notices, sending, stock_check
from .announcing import FAN_OUT
from .models import Notice

WEEK = 7


@dataclass(frozen=True)
class NoArgs:
    """It is about the moment that it is for."""


@dataclass(frozen=True)
class NoticeArgs:
    """Which notice goes to whom: never an address."""

    notice_id: int
    user_id: int


def _today[A](job: Job[A]) -> date:
    # As it was when it was due: a run that is late must not tell of another day.
    at: datetime = job.scheduled_for or timezone.now()
    return at.astimezone(ZoneInfo(settings.SHOP_ZONE)).date()


@handler("summarise_sales", policy=FAN_OUT, lane=Lane.BULK)
def summarise_sales(job: Job[NoArgs]) -> None:
    """State: there is a notice of what was sold on the day before, and the job of each email."""
    day = _today(job) - timedelta(days=1)
    sold = sales.sales_in(sales.span_of(day, ZoneInfo(settings.SHOP_ZONE)))
    with job.effects():
        if not notices.tell_sales(day, sold, job.outbox_id):
            job.nothing_to_do()


@handler("check_stock", policy=FAN_OUT, lane=Lane.BULK)
def check_stock(job: Job[NoArgs]) -> None:
    """State: it is known whether taken places, sold admissions and valid tickets agree; where they
    do not, staff is told. Nothing is mended: whoever does must know why first."""
    found = stock_check.differences()
    with job.effects():
        stock_check.note(found, job.outbox_id)
        if found:
            notices.tell_stock(_today(job), found, job.outbox_id)


def _pairs(args: Sequence[NoticeArgs]) -> list[tuple[int, int]]:
    return [(one.notice_id, one.user_id) for one in args]


def _foresee(args: Sequence[NoticeArgs]) -> list[Prognosis]:
    return notice_foresight.of_notices(_pairs(args))


def _consent(args: Sequence[NoticeArgs]) -> None:
    notices.begin_again(_pairs(args))


@handler(
    "email_staff", policy=sending.POLICY, lane=Lane.BULK, outside=sending.MAIL,
    subject="notice:{notice_id}", foresee=_foresee, consent=_consent,
)  # fmt: skip
def email_staff(job: Job[NoticeArgs]) -> None:
    """State: that person was sent the notice, once, unless it is none of theirs any more."""
    notice = Notice.objects.filter(pk=job.args.notice_id).first()
    if notice is None:
        raise GiveUp(f"there is no notice {job.args.notice_id}")
    user = notices.readers().filter(pk=job.args.user_id).first()
    wanted = user if not notices.is_old(notice) else None
    emailing.deliver(job, notices.begin(notice, wanted, job.outbox_id) if wanted else None)


declare(
    Schedule(
        name="sales_summary", words="Emails staff what was sold the day before",
        cron="0 7 * * *", tz=settings.SHOP_ZONE,
        kind="summarise_sales", catch_up=all_(WEEK), grace=3600,
    ),
    Schedule(
        name="stock_check", words="Compares places taken with tickets, and tells staff of a drift",
        cron="30 3 * * *", tz=settings.SHOP_ZONE,
        kind="check_stock", catch_up=ONCE, grace=3600,
    ),
)  # fmt: skip
