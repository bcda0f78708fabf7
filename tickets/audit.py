"""What always holds in the books of what was bought."""

from jobs.audit import Rule, register

register(
    Rule(
        "every ticket has the processed row of its job",
        """
        SELECT 'ticket ' || id FROM tickets_ticket AS effect WHERE NOT EXISTS (
            SELECT FROM jobs_processed WHERE outbox_id = effect.outbox_id
        ) ORDER BY id
        """,
    ),
    Rule(
        "every file has the processed row of its job",
        """
        SELECT 'file ' || id FROM tickets_ticketfile AS effect WHERE NOT EXISTS (
            SELECT FROM jobs_processed WHERE outbox_id = effect.outbox_id
        ) ORDER BY id
        """,
    ),
    # The row of a delivery is older than the effects of its job: T7 writes it before the first try.
    Rule(
        "every delivery has the processed row of its job, or was not sent and its job is not done",
        """
        SELECT 'delivery ' || id FROM tickets_delivery AS effect WHERE NOT EXISTS (
            SELECT FROM jobs_processed WHERE outbox_id = effect.outbox_id
        ) AND (state = 'sent' OR NOT EXISTS (
            SELECT FROM jobs_outbox AS job WHERE job.id = effect.outbox_id
        )) ORDER BY id
        """,
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
        """
        SELECT DISTINCT 'order ' || line.order_id FROM orders_orderline AS line
        JOIN orders_order ON orders_order.id = line.order_id AND orders_order.status = 'placed'
        LEFT JOIN (
            SELECT order_id, ticket_type_id, count(*) AS made FROM tickets_ticket
            WHERE status = 'valid' GROUP BY 1, 2
        ) AS ticket USING (order_id, ticket_type_id)
        WHERE coalesce(made, 0) <> quantity AND EXISTS (
            SELECT FROM jobs_processed
            WHERE kind = 'render_tickets' AND subject = 'order:' || line.order_id
        ) AND NOT EXISTS (
            SELECT FROM jobs_outbox
            WHERE kind = 'render_tickets' AND subject = 'order:' || line.order_id
        )
        """,
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
        "every order with tickets has the job of its email, in the outbox or processed",
        """
        SELECT DISTINCT 'order ' || order_id FROM tickets_ticket AS ticket WHERE NOT EXISTS (
            SELECT FROM jobs_outbox
            WHERE kind = 'email_tickets' AND subject = 'order:' || ticket.order_id
        ) AND NOT EXISTS (
            SELECT FROM jobs_processed
            WHERE kind = 'email_tickets' AND subject = 'order:' || ticket.order_id
        )
        """,
    ),
    Rule(
        "every refunded order has the job of its refund, in the outbox or processed",
        """
        SELECT 'order ' || id FROM orders_order AS refunded
        WHERE status = 'refunded' AND NOT EXISTS (
            SELECT FROM jobs_outbox
            WHERE kind = 'refund_order' AND subject = 'order:' || refunded.id
        ) AND NOT EXISTS (
            SELECT FROM jobs_processed
            WHERE kind = 'refund_order' AND subject = 'order:' || refunded.id
        ) ORDER BY id
        """,
    ),
)
