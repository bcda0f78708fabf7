"""Settings of workers whose render processes make blank pages."""

from stagedoor.settings.testing import *  # noqa: F403
from stagedoor.settings.testing import JOBS as TESTED

JOBS = {**TESTED, "WARM_UP": ["tests.blank_pages.renderer.warm_up"]}
