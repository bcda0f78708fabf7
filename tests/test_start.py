"""What a process loads at its start: each of a shop's processes pays for it, at each start."""

import os
import subprocess
import sys

from tests.processes import ROOT

SLOW = ("boto3", "icalendar", "requests", "weasyprint")
"""Needed where an email is made, an HTTP provider is called, a file is rendered."""
LOADED = f"""
import sys, django
django.setup()
import jobs.worker, stagedoor.urls
print(*sys.modules.keys() & {SLOW})
"""


def test_no_process_loads_at_its_start_what_few_jobs_need() -> None:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "stagedoor.settings.testing"}
    command = [sys.executable, "-c", LOADED]
    loaded = subprocess.check_output(command, cwd=ROOT, env=environment, text=True)
    assert loaded.split() == []
