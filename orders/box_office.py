"""The groups of staff: what their members may do."""

from collections.abc import Mapping, Sequence

from django.apps import apps
from django.conf import settings
from django.contrib.auth.management import create_permissions
from django.contrib.auth.models import Group, Permission
from django.db.models import Q

GROUP = "box office"
MAY = {
    "orders": (
        "add_event", "change_event", "view_event", "publish_event",
        "move_event", "cancel_event", "change_stock", "view_stock",
        "add_tickettype", "change_tickettype", "delete_tickettype", "view_tickettype",
        "view_order", "view_orderline", "refund_order", "view_refund",
    ),
    "tickets": (
        "view_ticket", "view_ticketfile", "view_delivery",
        "resend_tickets", "rerender_order", "export_attendees", "scan_ticket",
        "view_notice", "view_stockcheck",
    ),
    "jobs": ("view_deadjob", "replay", "view_kindhold", "view_sample", "view_scheduledrun"),
}  # fmt: skip
"""App to code names. Nobody at the box office deletes an event or writes an order by hand.

Whoever answers the buyer replays the job of a ticket; what is discarded, which kinds and schedules
are paused and which are run by hand, is for those who run the machines.
"""
DOOR = "door"
AT_THE_DOOR = {"tickets": ("scan_ticket",)}
"""Of those who let people in, and see nothing else."""


def make_group() -> None:
    """Make the groups and give them their permissions; what staff added to them stays."""
    for label in MAY:
        create_permissions(apps.get_app_config(label), verbosity=0)
    _give(GROUP, MAY)
    _give(DOOR, AT_THE_DOOR)
    # Without any permission: its members are told by email what was sold.
    Group.objects.get_or_create(name=settings.REPORT_GROUP)


def _give(name: str, may: Mapping[str, Sequence[str]]) -> None:
    wanted = Q()
    for label, names in may.items():
        wanted |= Q(content_type__app_label=label, codename__in=names)
    group, _ = Group.objects.get_or_create(name=name)
    group.permissions.add(*Permission.objects.filter(wanted))
