"""What always holds in the books of what was bought."""

from jobs.audit import PURGED, Rule, purged, register
from orders.audit import REFUNDED

TOLD = purged("processed", "deliveries")
"""Since when neither the jobs of emails nor the emails themselves were taken away."""

register(
    Rule(
        "every ticket has the processed row of its job",
        f"""
        SELECT 'ticket ' || id FROM tickets_ticket AS effect
        WHERE issued_at >= {PURGED} AND NOT EXISTS (
            SELECT FROM jobs_processed WHERE outbox_id = effect.outbox_id
        ) ORDER BY id
        """,  # noqa: S608 (a constant)
    ),
    Rule(
        "every file has the processed row of its job",
        f"""
        SELECT 'file ' || id FROM tickets_ticketfile AS effect
        WHERE made_at >= {PURGED} AND NOT EXISTS (
            SELECT FROM jobs_processed WHERE outbox_id = effect.outbox_id
        ) ORDER BY id
        """,  # noqa: S608 (a constant)
    ),
    # The row of a delivery is older than the effects of its job: T7 writes it before the first try.
    Rule(
        "every delivery has the processed row of its job, or was not sent and its job is not done",
        f"""
        SELECT 'delivery ' || id FROM tickets_delivery AS effect
        WHERE first_try_at >= {PURGED} AND NOT EXISTS (
            SELECT FROM jobs_processed WHERE outbox_id = effect.outbox_id
        ) AND (state = 'sent' OR NOT EXISTS (
            SELECT FROM jobs_outbox AS job WHERE job.id = effect.outbox_id
        )) ORDER BY id
        """,  # noqa: S608 (a constant)
    ),
    Rule(
        "no order has more tickets than its lines say",
        """
        SELECT DISTINCT 'order ' || order_id FROM (
            SELECT order_id, ticket_type_id, count(*) AS made FROM tickets_ticket GROUP BY 1, 2
        ) AS ticket LEFT JOIN orders_orderline USING (order_id, ticket_type_id)
        WHERE made > coalesce(quantity, 0)
        """,
    ),
    # Where another render is due, the first one may have met an order that was just changed.
    Rule(
        "a placed order whose render is processed has a valid ticket for each place",
        f"""
        SELECT DISTINCT 'order ' || line.order_id FROM orders_orderline AS line
        JOIN orders_order ON orders_order.id = line.order_id AND orders_order.status = 'placed'
        LEFT JOIN (
            SELECT order_id, ticket_type_id, count(*) AS made FROM tickets_ticket
            WHERE status = 'valid' GROUP BY 1, 2
        ) AS ticket USING (order_id, ticket_type_id)
        LEFT JOIN (
            SELECT order_id, ticket_type_id, count(*) AS gone FROM ({REFUNDED}) AS refunded
            GROUP BY 1, 2
        ) AS refunded USING (order_id, ticket_type_id)
        WHERE coalesce(made, 0) <> quantity - coalesce(gone, 0) AND EXISTS (
            SELECT FROM jobs_processed
            WHERE kind = 'render_tickets' AND subject = 'order:' || line.order_id
        ) AND NOT EXISTS (
            SELECT FROM jobs_outbox
            WHERE kind = 'render_tickets' AND subject = 'order:' || line.order_id
        )
        """,  # noqa: S608 (a constant)
    ),
    Rule(
        "an order that is not placed has no valid ticket",
        """
        SELECT 'ticket ' || ticket.id FROM tickets_ticket AS ticket
        JOIN orders_order ON orders_order.id = ticket.order_id
        WHERE ticket.status = 'valid' AND orders_order.status <> 'placed' ORDER BY ticket.id
        """,
    ),
    Rule(
        "no refunded admission has a valid ticket",
        """
        SELECT 'ticket ' || ticket.id FROM tickets_ticket AS ticket
        JOIN orders_refunditem AS item ON item.order_id = ticket.order_id AND item.seq = ticket.seq
        WHERE ticket.status = 'valid' AND live ORDER BY ticket.id
        """,
    ),
    Rule(
        "every order with tickets has the job of its email, in the outbox or processed",
        f"""
        SELECT DISTINCT 'order ' || order_id FROM tickets_ticket AS ticket
        WHERE issued_at >= {PURGED} AND NOT EXISTS (
            SELECT FROM jobs_outbox
            WHERE kind = 'email_tickets' AND subject = 'order:' || ticket.order_id
        ) AND NOT EXISTS (
            SELECT FROM jobs_processed
            WHERE kind = 'email_tickets' AND subject = 'order:' || ticket.order_id
        )
        """,  # noqa: S608 (a constant)
    ),
    Rule(
        "every refund has the job that follows it up, in the outbox or processed",
        f"""
        SELECT 'refund ' || id FROM orders_refund AS effect WHERE requested_at >= {PURGED} AND CASE
            WHEN outbox_id IS NULL THEN NOT EXISTS (
                SELECT FROM jobs_outbox
                WHERE kind = 'refund_order' AND subject = 'order:' || order_id
            )
            ELSE NOT EXISTS (
                SELECT FROM jobs_processed AS job WHERE job.outbox_id = effect.outbox_id
            )
        END ORDER BY id
        """,  # noqa: S608 (a constant)
    ),
    # The first refunds were told of by that job itself, those of a cancelled event are by the email
    # that tells of the cancellation.
    Rule(
        "every refund that was followed up has its email, or the job of it",
        f"""
        SELECT 'refund ' || id FROM orders_refund AS refund
        WHERE outbox_id IS NOT NULL AND requested_at >= {TOLD} AND NOT EXISTS (
            SELECT FROM tickets_delivery
            WHERE order_id = refund.order_id AND kind = 'refund' AND generation = number
        ) AND NOT EXISTS (
            SELECT FROM jobs_outbox WHERE kind = 'email_refund'
                AND subject = 'order:' || order_id AND args ->> 'number' = number::text
        ) AND NOT EXISTS (
            SELECT FROM jobs_processed WHERE kind = 'email_refund'
                AND subject = 'order:' || order_id AND args ->> 'number' = number::text
        ) AND NOT EXISTS (
            SELECT FROM jobs_processed AS job
            WHERE job.outbox_id = refund.outbox_id AND kind = 'announce_event'
        ) ORDER BY id
        """,  # noqa: S608 (a constant)
    ),
    Rule(
        "every order that an announcement has come to has the job that tells its buyer",
        f"""
        SELECT 'announcement ' || announcement.id || ', order ' || bought.id
        FROM orders_announcement AS announcement JOIN orders_order AS bought
            ON bought.event_id = announcement.event_id AND bought.id <= announcement.cursor
        WHERE announcement.created_at >= {PURGED} AND CASE
            WHEN announcement.kind = 'moved' THEN bought.status = 'placed'
            ELSE EXISTS (
                SELECT FROM orders_refund AS refund
                JOIN jobs_processed AS job ON job.outbox_id = refund.outbox_id
                WHERE refund.order_id = bought.id AND job.kind = 'announce_event'
            )
        END AND NOT EXISTS (
            SELECT FROM jobs_outbox AS job
            WHERE job.kind = 'announce_order' AND subject = 'order:' || bought.id
                AND args ->> 'announcement_id' = announcement.id::text
        ) AND NOT EXISTS (
            SELECT FROM jobs_processed AS job
            WHERE job.kind = 'announce_order' AND subject = 'order:' || bought.id
                AND args ->> 'announcement_id' = announcement.id::text
        ) ORDER BY announcement.id, bought.id
        """,  # noqa: S608 (a constant)
    ),
    Rule(
        "an announcement that is not done has the job of its next batch, in the outbox",
        """
        SELECT 'announcement ' || id FROM orders_announcement AS announcement
        WHERE done_at IS NULL AND NOT EXISTS (
            SELECT FROM jobs_outbox
            WHERE kind = 'announce_event' AND subject = 'announcement:' || announcement.id
                AND args ->> 'cursor' = cursor::text
        ) ORDER BY id
        """,
    ),
    Rule(
        "every reminder has the processed row of its job",
        f"""
        SELECT 'reminder ' || id FROM tickets_reminder AS effect
        WHERE begun_at >= {PURGED} AND NOT EXISTS (
            SELECT FROM jobs_processed WHERE outbox_id = effect.outbox_id
        ) ORDER BY id
        """,  # noqa: S608 (a constant)
    ),
    Rule(
        "every notice has the processed row of its job",
        f"""
        SELECT 'notice ' || id FROM tickets_notice AS effect
        WHERE made_at >= {PURGED} AND NOT EXISTS (
            SELECT FROM jobs_processed WHERE outbox_id = effect.outbox_id
        ) ORDER BY id
        """,  # noqa: S608 (a constant)
    ),
    Rule(
        "every stock check has the processed row of its job",
        f"""
        SELECT 'stock check ' || id FROM tickets_stockcheck AS effect
        WHERE at >= {PURGED} AND NOT EXISTS (
            SELECT FROM jobs_processed WHERE outbox_id = effect.outbox_id
        ) ORDER BY id
        """,  # noqa: S608 (a constant)
    ),
    Rule(
        "a reminder that is not done has the job of its next batch, in the outbox",
        """
        SELECT 'reminder ' || id FROM tickets_reminder AS reminder
        WHERE done_at IS NULL AND NOT EXISTS (
            SELECT FROM jobs_outbox
            WHERE kind = 'remind_event' AND subject = 'reminder:' || reminder.id
                AND args ->> 'cursor' = cursor::text
        ) ORDER BY id
        """,
    ),
    Rule(
        "an event whose cancellation is done has no placed order",
        """
        SELECT 'order ' || bought.id FROM orders_order AS bought
        JOIN orders_announcement AS announcement USING (event_id)
        WHERE kind = 'cancelled' AND done_at IS NOT NULL AND bought.status = 'placed'
        ORDER BY bought.id
        """,
    ),
    Rule(
        "a ticket is used where one scan has let somebody in",
        """
        SELECT 'ticket ' || ticket.id FROM tickets_ticket AS ticket LEFT JOIN (
            SELECT ticket_id, count(*) AS number FROM tickets_scan
            WHERE answer = 'valid' GROUP BY ticket_id
        ) AS scan ON ticket_id = ticket.id
        WHERE coalesce(number, 0) <> CASE WHEN used_at IS NULL THEN 0 ELSE 1 END ORDER BY ticket.id
        """,
    ),
    Rule(
        "a refund whose payment was tried is paid, has failed, or has its job in the outbox",
        """
        SELECT 'refund ' || id FROM orders_refund AS refund
        WHERE status = 'requested' AND tried_at IS NOT NULL AND NOT EXISTS (
            SELECT FROM jobs_outbox WHERE kind = 'pay_refund'
                AND subject = 'order:' || order_id AND args ->> 'number' = number::text
        ) ORDER BY id
        """,
    ),
    Rule(
        "every answer to a lost link has the processed row of its job, or was not sent and its job "
        "is not done",
        f"""
        SELECT 'lost link ' || asked_id FROM tickets_linkdelivery AS effect
        WHERE first_try_at >= {PURGED} AND NOT EXISTS (
            SELECT FROM jobs_processed WHERE outbox_id = effect.outbox_id
        ) AND (state IN ('sent', 'bounced') OR NOT EXISTS (
            SELECT FROM jobs_outbox AS job WHERE job.id = effect.outbox_id
        )) ORDER BY asked_id
        """,  # noqa: S608 (a constant)
    ),
    Rule(
        "every email to staff has the processed row of its job, or was not sent and its job is not "
        "done",
        f"""
        SELECT 'notice ' || notice_id FROM tickets_noticedelivery AS effect
        WHERE first_try_at >= {PURGED} AND NOT EXISTS (
            SELECT FROM jobs_processed WHERE outbox_id = effect.outbox_id
        ) AND (state IN ('sent', 'bounced') OR NOT EXISTS (
            SELECT FROM jobs_outbox AS job WHERE job.id = effect.outbox_id
        )) ORDER BY notice_id
        """,  # noqa: S608 (a constant)
    ),
    Rule(
        "every lost link has its job, in the outbox or processed",
        f"""
        SELECT 'lost link ' || id FROM tickets_lostlinkrequest AS asked
        WHERE asked_at >= {PURGED} AND NOT EXISTS (
            SELECT FROM jobs_outbox
            WHERE kind = 'email_links' AND subject = 'lost_link:' || asked.id
        ) AND NOT EXISTS (
            SELECT FROM jobs_processed
            WHERE kind = 'email_links' AND subject = 'lost_link:' || asked.id
        ) ORDER BY id
        """,  # noqa: S608 (a constant)
    ),
    Rule(
        "what a buyer did has its job, in the outbox or processed",
        f"""
        SELECT what || ' of order ' || order_id FROM tickets_buyeract AS effect
        WHERE at >= {PURGED} AND NOT EXISTS (
            SELECT FROM jobs_outbox AS job WHERE job.id = effect.outbox_id
        ) AND NOT EXISTS (
            SELECT FROM jobs_processed WHERE outbox_id = effect.outbox_id
        ) ORDER BY effect.id
        """,  # noqa: S608 (a constant)
    ),
    # Word of a change is in the file of its version or a later one: being made, or emailed.
    Rule(
        "a placed order with a new holder has a render or an email of it, due or begun",
        f"""
        SELECT DISTINCT 'order ' || act.order_id FROM tickets_buyeract AS act
        JOIN orders_order ON orders_order.id = act.order_id AND orders_order.status = 'placed'
        WHERE act.what = 'rename' AND act.at >= {TOLD} AND NOT EXISTS (
            SELECT FROM jobs_outbox AS job WHERE job.subject = 'order:' || act.order_id
            AND job.kind IN ('render_tickets', 'email_tickets', 'email_changed_tickets')
        ) AND NOT EXISTS (
            SELECT FROM tickets_delivery JOIN tickets_ticketfile AS file ON file.id = file_id
            WHERE tickets_delivery.order_id = act.order_id
            AND file.order_version >= act.order_version
        )
        """,  # noqa: S608 (a constant)
    ),
)
