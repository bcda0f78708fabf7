"""The job that answers a lost link."""

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.job import Job
from jobs.prognosis import Prognosis
from jobs.registry import handler

from . import emailing, link_foresight, lost_links, sending
from .models import LostLinkRequest


@dataclass(frozen=True)
class LinkArgs:
    """Which request: never an address."""

    asked_id: int


def _foresee(args: Sequence[LinkArgs]) -> list[Prognosis]:
    return link_foresight.of_links([one.asked_id for one in args])


def _consent(args: Sequence[LinkArgs]) -> None:
    lost_links.begin_again(one.asked_id for one in args)


@handler(
    "email_links",
    policy=sending.POLICY,
    outside=sending.MAIL,
    subject="lost_link:{asked_id}",
    foresee=_foresee,
    consent=_consent,
)
def email_links(job: Job[LinkArgs]) -> None:
    """State: whoever has this address was sent the links of its orders to come, once, if any."""
    asked = LostLinkRequest.objects.filter(pk=job.args.asked_id).first()
    emailing.deliver(job, lost_links.begin(asked, job.outbox_id) if asked else None)
