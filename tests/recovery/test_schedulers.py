"""Real schedulers: killed at every failpoint, beside each other, without their database."""

import signal
from datetime import datetime, timedelta
from pathlib import Path

from django.db import connection
from django.utils import timezone

from jobs.models import Process as ProcessRow
from jobs.models import ScheduleCursor, ScheduledRun
from tests import servers
from tests.books import books_are_in_order
from tests.cuts import Cut
from tests.jobs.scheduled import each_fired_once, fired
from tests.manager import Manager
from tests.processes import Product, wait_for

PLACES = ["locked", "slot_written", "job_written", "moved", "committed"]


def missed(minutes: int) -> datetime:
    """The schedule of the drills was looked at so long ago for the last time."""
    now = timezone.now()
    ScheduleCursor.objects.filter(name="drill").delete()
    until = now - timedelta(minutes=minutes)
    ScheduleCursor.objects.create(name="drill", cron="* * * * *", tz="UTC", decided_until=until)
    return now


def test_killed_at_every_line_and_followed_by_two_each_due_time_has_fired_once(
    product: Product, tmp_path: Path
) -> None:
    missed(30)
    for place in PLACES:
        assert not ScheduledRun.objects.filter(name="drill").exists()
        cut = Cut(f"scheduler.{place}", tmp_path / place)
        cut.was_hit_by(product.scheduler(**cut.environment()))
    assert len(fired("drill")) >= 30
    two = [product.scheduler("--name", name) for name in ("one", "two")]
    began = missed(40)
    wait_for(lambda: len(fired("drill")) >= 40, "all that was due before")
    wait_for(lambda: ProcessRow.objects.filter(role="scheduler").count() == 2, "two at work")
    assert [one.stop() for one in two] == [0, 0]
    assert not ProcessRow.objects.filter(role="scheduler").exists()
    assert ScheduledRun.objects.filter(name="drill", result="skipped").count() == 0
    assert each_fired_once("drill")
    minutes = [due.replace(second=0) for due in fired("drill") if due < began]
    books_are_in_order()
    assert minutes == [minutes[0] + timedelta(minutes=number) for number in range(len(minutes))]


def test_a_scheduler_waits_for_its_database_and_tells_the_service_manager(product: Product) -> None:
    connection.close()
    servers.POSTGRES.kill()
    with Manager() as manager:
        scheduler = product.scheduler(**manager.environment)
        manager.wait_for("EXTEND_TIMEOUT_USEC=120000000", 2)
        assert not manager.heard("READY=1")
        servers.POSTGRES.start()
        manager.wait_for("READY=1")
        manager.wait_for("WATCHDOG=1")
        connection.close()
        servers.POSTGRES.kill()
        manager.wait_for("STATUS=backs off: ")
        servers.POSTGRES.start()
        missed(3)
        wait_for(lambda: len(fired("drill")) >= 3, "what was due meanwhile")
        scheduler.signal(signal.SIGINT)
        assert scheduler.ended() == 0
        assert manager.said[-1][0] == "STOPPING=1"


def test_a_wrong_password_ends_a_scheduler_loudly(product: Product) -> None:
    wrong = "postgres://nobody:secret@" + servers.POSTGRES.url("x").split("@")[1]
    scheduler = product.scheduler(DATABASE_URL=wrong)
    assert scheduler.ended() == 7
    assert scheduler.said("refused by a server")
    assert not scheduler.said("secret")
