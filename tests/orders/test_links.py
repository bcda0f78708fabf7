"""The secret link: derived, found by digest, alive over a change of keys, revoked by a version."""

import re
import secrets

import pytest
from django.test import Client, override_settings

from orders import links
from orders.models import Order
from tests.people import TicketTypeFactory, buy
from tests.web import open_order

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_secret_has_130_bits_and_depends_on_order_key_and_version() -> None:
    keys = {1: secrets.token_bytes(32), 2: secrets.token_bytes(32)}
    with override_settings(LINK_KEYS=keys):
        found = {
            links.secret_of(order, key, version)
            for order in (1, 11, 111)
            for key in (1, 2)
            for version in (1, 11)
        }
        assert links.newest_key() == 2
        assert links.secret_of(7, 1, 1) == links.secret_of(7, 1, 1)
    assert len(found) == 12
    assert all(re.fullmatch("[A-Z2-7]{26}", secret) for secret in found)


def test_the_database_holds_a_digest_and_no_secret() -> None:
    placed = buy(TicketTypeFactory())
    row = Order.objects.values().get()
    assert placed.secret not in str(row)
    assert bytes(row["secret_digest"]) == links.digest_of(placed.secret)


def test_links_already_mailed_survive_a_new_key_and_even_the_loss_of_the_old(
    client: Client,
) -> None:
    kind = TicketTypeFactory()
    old = buy(kind)
    newer = {1: secrets.token_bytes(32), 2: secrets.token_bytes(32)}
    with override_settings(LINK_KEYS=newer):
        new = buy(kind)
        for placed in (old, new):
            assert client.get(open_order(client, placed)).status_code == 200
    assert Order.objects.get(pk=new.id).link_key == 2


def test_a_raised_version_revokes_link_and_grant_and_opens_the_new_one(client: Client) -> None:
    placed = buy(TicketTypeFactory())
    page = open_order(client, placed)
    order = Order.objects.get()
    order.link_version += 1
    secret = links.secret_of(order.pk, order.link_key, order.link_version)
    order.secret_digest = links.digest_of(secret)
    order.save()
    assert client.get(page).status_code == 404
    assert client.get(f"/o/{placed.secret}/").status_code == 404
    assert client.get(f"/o/{secret}/").status_code == 302
    assert client.get(page).status_code == 200


def test_a_link_typed_in_small_letters_works(client: Client) -> None:
    placed = buy(TicketTypeFactory())
    assert client.get(f"/o/{placed.secret.lower()}/").status_code == 302
