"""The banner of the admin."""

from django import template
from django.template import Context
from django.urls import reverse

from jobs.status.banner import alerts

register = template.Library()
NEEDS = {
    "admin:jobs_deadjob_changelist": ("jobs.view_deadjob",),
    "admin:jobs_kindhold_changelist": ("jobs.view_kindhold", "jobs.change_kindhold"),
}


@register.inclusion_tag("admin/jobs/alerts.html", takes_context=True)
def queue_alerts(context: Context) -> dict[str, object]:
    """What is wrong with the queue, for staff; a link where the person may follow it."""
    request = context.get("request")
    user = getattr(request, "user", None)
    if user is None or not (user.is_active and user.is_staff):
        return {"alerts": []}
    return {"alerts": [(one.text, _link(user, one.page)) for one in alerts()]}


def _link(user: object, page: str) -> str:
    may = any(user.has_perm(name) for name in NEEDS.get(page, ()))  # type: ignore[attr-defined]
    return reverse(page) if may else ""
