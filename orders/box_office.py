"""The group `box office`: what its members may do in the admin."""

from django.apps import apps
from django.contrib.auth.management import create_permissions
from django.contrib.auth.models import Group, Permission
from django.db.models import Q

GROUP = "box office"
MAY = {
    "orders": (
        "add_event", "change_event", "view_event", "publish_event", "change_stock", "view_stock",
        "add_tickettype", "change_tickettype", "delete_tickettype", "view_tickettype",
        "view_order", "view_orderline", "refund_order", "view_refund",
    ),
    "tickets": (
        "view_ticket", "view_ticketfile", "view_delivery",
        "resend_tickets", "rerender_order", "export_attendees",
    ),
    "jobs": ("view_deadjob", "replay", "view_kindhold"),
}  # fmt: skip
"""App to code names. Nobody at the box office deletes an event or writes an order by hand.

Whoever answers the buyer replays the job of a ticket; what is discarded, and which kinds are
paused, is for those who run the machines.
"""


def make_group() -> None:
    """Make the group and give it its permissions; what staff added to it stays."""
    for label in MAY:
        create_permissions(apps.get_app_config(label), verbosity=0)
    wanted = Q()
    for label, names in MAY.items():
        wanted |= Q(content_type__app_label=label, codename__in=names)
    group, _ = Group.objects.get_or_create(name=GROUP)
    group.permissions.add(*Permission.objects.filter(wanted))
