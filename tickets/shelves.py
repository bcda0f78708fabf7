"""What of the emails is kept for how long. Of an event to come all is known that it was told."""

from django.conf import settings

from jobs.shelves import NOT_NEEDED, NOT_OPEN, Shelf, register

OVER = """(SELECT starts_at FROM orders_event AS event JOIN orders_order AS bought
    ON bought.event_id = event.id WHERE bought.id = row.order_id)"""
MASKED = (
    "masked_at = now(), text = '', html = '', message_id = '', "
    "recipient = 'forgotten-' || row.id, idempotency_key = 'forgotten-' || row.id"
)
"""Subject, state and times stay: who was told what, and when, is still in the story. A key is made
of the address; two rows must not be alike."""


def personal() -> float:
    """Days for which words and addresses are kept."""
    return float(settings.PERSONAL_DAYS)


register(
    Shelf(
        name="email words", table="tickets_delivery", born="first_try_at",
        open="masked_at IS NULL", past=NOT_NEEDED, change=f"{MASKED}, calendar = ''", days=personal,
    ),
    Shelf(
        name="deliveries", table="tickets_delivery", born="first_try_at",
        past=f"{OVER} < %(until)s AND {NOT_OPEN}",
    ),
    Shelf(
        name="notice words", table="tickets_noticedelivery", born="first_try_at",
        open="masked_at IS NULL", past=NOT_NEEDED, change=MASKED, days=personal,
    ),
    Shelf(
        name="notice deliveries", table="tickets_noticedelivery", born="first_try_at",
        past=NOT_OPEN,
    ),
    Shelf(
        name="notices", table="tickets_notice", born="made_at",
        past="NOT EXISTS (SELECT FROM tickets_noticedelivery WHERE notice_id = row.id)",
    ),
    Shelf(name="stock checks", table="tickets_stockcheck", born="at"),
    Shelf(
        name="changed names", table="tickets_buyeract", born="at",
        open="what = 'rename' AND masked_at IS NULL", days=personal,
        change="masked_at = now(), "
        "note = split_part(note, ':', 1) || ': another name (the names were forgotten)'",
    ),
    # An error quotes what it was given; its class, or our words for it, stand before the colon.
    Shelf(
        name="error words", table="jobs_event", born="at", past=NOT_NEEDED, days=personal,
        open="what IN ('failed', 'tried later', 'buried') AND strpos(note, ': ') > 0",
        change="note = split_part(note, ': ', 1)",
    ),
    Shelf(
        name="discarded words", table="jobs_outbox", born="created_at", days=personal,
        open="discarded_at IS NOT NULL AND last_error || traceback <> ''",
        past="row.discarded_at < %(until)s",
        change="last_error = '', traceback = '', dead_reason = split_part(dead_reason, ': ', 1)",
    ),
    # Nothing but personal data: gone, not masked.
    Shelf(
        name="link answers", table="tickets_linkdelivery", born="first_try_at",
        past=NOT_NEEDED, days=personal,
    ),
    Shelf(
        name="lost links", table="tickets_lostlinkrequest", born="asked_at", days=personal,
        past="""NOT EXISTS (SELECT FROM tickets_linkdelivery WHERE asked_id = row.id)
            AND NOT EXISTS (SELECT FROM jobs_outbox
                WHERE subject = 'lost_link:' || row.id AND discarded_at IS NULL)""",
    ),
)  # fmt: skip
