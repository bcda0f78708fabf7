"""The banner of the admin."""

from django import template
from django.template import Context

from jobs.status.banner import alerts
from jobs.status.links import link

register = template.Library()


@register.inclusion_tag("admin/jobs/alerts.html", takes_context=True)
def queue_alerts(context: Context) -> dict[str, object]:
    """What is wrong with the queue, for staff; a link where the person may follow it."""
    request = context.get("request")
    user = getattr(request, "user", None)
    if user is None or not (user.is_active and user.is_staff):
        return {"alerts": []}
    return {"alerts": [(one.text, link(user, one.page)) for one in alerts()]}
