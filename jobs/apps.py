"""Start-up of the machinery: loads every app's handlers, arms a failpoint where a test asks."""

import contextlib
import os
import signal
from pathlib import Path

from django.apps import AppConfig
from django.conf import settings
from django.utils.module_loading import autodiscover_modules

from . import checks, failpoint  # noqa: F401 (checks registers itself)


class JobsConfig(AppConfig):
    name = "jobs"
    verbose_name = "Jobs"

    def ready(self) -> None:
        autodiscover_modules("handlers", "gauges")
        if settings.FAILPOINTS and "FAILPOINT" in os.environ:
            _arm_from_environment(os.environ["FAILPOINT"], Path(os.environ["FAILPOINT_MARK"]))


def _arm_from_environment(wanted: str, mark: Path) -> None:
    """End this process by SIGKILL at the place `wanted`, once: `mark` says that it happened."""

    def kill_once(place: str) -> None:
        if place == wanted:
            with contextlib.suppress(FileExistsError), mark.open("x") as file:
                file.write(f"{place}\n")
                file.flush()
                os.kill(os.getpid(), signal.SIGKILL)

    failpoint.arm(kill_once)
