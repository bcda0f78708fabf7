"""Faults, one after the other, each told in plain words while it happens."""

import signal

from django.conf import settings
from django.utils import timezone
from django.utils.module_loading import autodiscover_modules

from jobs import holds, replay
from jobs.audit import audit
from jobs.models import OutboxRow
from jobs.status import InFlight, in_flight
from orders.models import Order
from stagedoor.mailbox import DOWN, REFUSING
from stagedoor.place import Refused

from .buyer import Bought
from .copy import RunningCopy, wait_for
from .telling import attempts, once, story, tell, title

TRIES = 20
MANY = 24
"""Emails: with two workers ten of one fail in a row, which is when their kind is held."""
REDIS_AWAY = "redis: the stream's server does not answer"


def play(copy: RunningCopy) -> None:
    """All of them. Raises Refused where one does not go as it should."""
    copy.mend()
    for scene in (buy, kill_worker, stop_redis, silence_provider, bury_and_replay, prove):
        scene(copy)


def buy(copy: RunningCopy) -> None:
    """Nothing is wrong yet."""
    title("1. A buyer orders two tickets")
    bought = copy.buyer.order(2)
    tell(
        f"The answer came after {1000 * bought.seconds:.0f} ms: order {bought.code} is in the "
        "database, and in the same commit the first of its jobs."
    )
    seconds = copy.await_state([bought], "emailed")
    tell(
        f"{seconds:.1f} s later a worker had made the tickets and mailed them. The email is the "
        f"newest .eml file in {settings.MAIL_DIR}; its link opens {bought.page}"
    )


def kill_worker(copy: RunningCopy) -> None:
    """A worker dies with jobs in its hands."""
    title("2. A worker is killed while it renders")
    copy.await_worker()
    bought: list[Bought] = []
    lost = _kill_in_a_render(copy, bought)
    names = ", ".join(f"{job.kind} (outbox row {job.outbox_id})" for job in lost)
    tell(
        f"kill -9 of {copy.worker}. In its hands: {names}. Nothing of it was committed, nothing is "
        "lost: each is still an outbox row. The copy starts the worker again, as its own lines "
        "say. It waits until the dead one's name is free, 20 s at most, and runs what that one "
        "left."
    )
    seconds = copy.await_state(bought, "emailed")
    tell(f"{seconds:.1f} s later all have their tickets. {once(bought)}")


def _kill_in_a_render(copy: RunningCopy, bought: list[Bought]) -> list[InFlight]:
    for _ in range(TRIES):
        bought.append(copy.buyer.order(2))
        # Frozen for the look: it may not finish between that and the kill.
        with copy.frozen("worker-1"):
            lost = [job for job in in_flight(settings.REDIS_URL) if job.consumer == copy.worker]
            if any(job.kind == "render_tickets" for job in lost):
                copy.signal("worker-1", signal.SIGKILL)
                return lost
    raise Refused(f"{copy.worker} rendered none of {TRIES} orders: its lines say why.")


def stop_redis(copy: RunningCopy) -> None:
    """Redis is away while somebody buys."""
    title("3. Redis is away while somebody buys")
    bought = _buy_without_redis(copy)
    tell(
        f"kill -9 of this copy's Redis, then an order: answered after {1000 * bought.seconds:.0f} "
        f"ms, order {bought.code}. Selling needs PostgreSQL alone. /readyz says “{REDIS_AWAY}”, "
        "with 200: buyers may still be sent here. The relay and the workers wait, and say so."
    )
    seconds = copy.await_state([bought], "emailed")
    tell(
        f"The copy starts Redis again; {seconds:.1f} s after the order its tickets were mailed. "
        f"{once([bought])}"
    )


def _buy_without_redis(copy: RunningCopy) -> Bought:
    for _ in range(TRIES):
        form = copy.buyer.form(1)
        copy.signal("redis", signal.SIGKILL)
        bought = copy.buyer.send(form)
        if REDIS_AWAY in copy.buyer.read(f"{copy.base}/readyz"):
            return bought
    raise Refused("Redis was back each time before the order was placed.")


def silence_provider(copy: RunningCopy) -> None:
    """The email provider serves nobody."""
    title("4. The email provider is down")
    with copy.mail(DOWN) as switch:
        tell(f"While the file {switch} is there, no email is taken. {MANY} buyers order.")
        bought = [copy.buyer.order() for _ in range(MANY)]
        wait_for(lambda: "email_tickets" in [hold.kind for hold in holds.in_force()], "the hold")
        copy.await_state(bought, "ready")
        tell(
            "Their tickets are made, and each can be downloaded. After ten emails in a row that a "
            "worker could not send, their kind is held: the others wait in the outbox and are not "
            f"even tried. See {copy.base}/admin/, “Kinds of jobs”. {attempts()}"
        )
    seconds = copy.await_state(bought, "emailed")
    tell(
        "The provider is back. One job at a time is tried, the first that succeeds frees all: "
        f"mailed {seconds:.1f} s later. {once(bought)}"
    )


def bury_and_replay(copy: RunningCopy) -> None:
    """A job that cannot succeed, and a person who replays it."""
    title("5. A job that cannot succeed, and a person who replays it")
    with copy.mail(REFUSING) as switch:
        bought = copy.buyer.order()
        job = _dead_email(bought)
        tell(
            f"While the file {switch} is there, every recipient is refused for good. So the job "
            f"that was to email order {bought.code} is dead: “{job.dead_reason}”. Its page in the "
            f"admin, {copy.base}/admin/jobs/deadjob/{job.pk}/change/, has its error, its story, "
            "and what a replay would do."
        )
    other = copy.buyer.order()
    seconds = copy.await_state([other], "emailed")
    tell(f"It blocks nothing: order {other.code}, placed after it, was mailed in {seconds:.1f} s.")
    replay.replay([job.pk], timezone.now(), replay.Deed("make demo-faults"))
    seconds = copy.await_state([bought], "emailed")
    tell(f"Replay, as its button does: mailed {seconds:.1f} s later. {story(job)} {once([bought])}")


def _dead_email(bought: Bought) -> OutboxRow:
    order = Order.objects.get(code=bought.code)
    return wait_for(
        OutboxRow.objects.about(f"order:{order.pk}").dead().first, "the email to be refused"
    )


def prove(copy: RunningCopy) -> None:
    """Nothing was lost, nothing was done twice."""
    title("6. The books")
    autodiscover_modules("audit")
    report = audit(
        settings.REDIS_URL,
        after=settings.JOBS["AUDIT_AFTER"], pause=settings.JOBS["AUDIT_PAUSE"],
    )  # fmt: skip
    if report.exit_code:
        raise Refused(f"The books are not in order:\n{report}")
    tell(
        "make manage CMD=audit says that all is in order: no job is lost or in two places, every "
        "ticket and email has its job, places taken are tickets sold."
    )
