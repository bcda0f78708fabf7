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


def said(*command: str) -> str:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "stagedoor.settings.testing"}
    words = [sys.executable, *command]
    return subprocess.check_output(words, cwd=ROOT, env=environment, text=True)


def test_no_process_loads_at_its_start_what_few_jobs_need() -> None:
    assert said("-c", LOADED).split() == []


def test_a_command_collects_garbage_once_it_has_started() -> None:
    collects = "import gc; print(gc.isenabled())"
    assert said("manage.py", "shell", "--no-imports", "-c", collects) == "True\n"
