"""The admin's pages that tell more, for those who may read them."""

from typing import Any

from django.urls import reverse

NEEDS = {
    "admin:jobs_deadjob_changelist": ("jobs.view_deadjob",),
    "admin:jobs_kindhold_changelist": ("jobs.view_kindhold", "jobs.change_kindhold"),
    "admin:jobs_sample_changelist": ("jobs.view_sample",),
}


def link(user: Any, page: str) -> str:
    """The address of `page`; empty where there is none, or the person may not read it."""
    may = any(user.has_perm(name) for name in NEEDS.get(page, ()))
    return reverse(page) if may else ""
