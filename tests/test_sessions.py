"""Sessions of staff that are over are deleted, and no other."""

from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.db import transaction
from django.utils import timezone

from jobs.outbox import enqueue
from jobs.schedule import declared
from jobs.testing import drain


@pytest.mark.django_db(transaction=True)
def test_sessions_that_are_over_are_deleted_each_night() -> None:
    for key, hours in (("over", -1), ("open", 1)):
        Session.objects.create(session_key=key, expire_date=timezone.now() + timedelta(hours=hours))
    [schedule] = [one for one in declared() if one.name == "sessions"]
    with transaction.atomic():
        enqueue(schedule.kind)
    drain()
    assert list(Session.objects.values_list("session_key", flat=True)) == ["open"]
