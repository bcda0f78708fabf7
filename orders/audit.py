"""What always holds in the books of selling."""

from jobs.audit import Rule, register

register(
    Rule(
        "every order has its job, in the outbox or processed",
        """
        SELECT 'order ' || id FROM orders_order
        WHERE NOT EXISTS (
            SELECT FROM jobs_outbox
            WHERE kind = 'render_tickets' AND subject = 'order:' || orders_order.id
        ) AND NOT EXISTS (
            SELECT FROM jobs_processed
            WHERE kind = 'render_tickets' AND subject = 'order:' || orders_order.id
        ) ORDER BY id
        """,
    ),
    Rule(
        "stock taken is what placed orders hold",
        """
        SELECT 'ticket type ' || ticket_type_id FROM orders_stock FULL JOIN (
            SELECT ticket_type_id, sum(quantity) AS sold
            FROM orders_orderline JOIN orders_order ON orders_order.id = order_id
            WHERE status = 'placed' GROUP BY ticket_type_id
        ) AS placed USING (ticket_type_id)
        WHERE coalesce(taken, 0) <> coalesce(sold, 0) ORDER BY ticket_type_id
        """,
    ),
    Rule(
        "every refunded order has a refund of all it cost",
        """
        SELECT 'order ' || id FROM orders_order WHERE status = 'refunded' AND NOT EXISTS (
            SELECT FROM orders_refund
            WHERE order_id = orders_order.id AND amount = total AND status <> 'failed'
        ) ORDER BY id
        """,
    ),
    Rule(
        "no admission is refunded twice, or of an order that is not refunded",
        """
        SELECT DISTINCT 'order ' || order_id FROM orders_refunditem AS item
        JOIN orders_order ON orders_order.id = order_id
        WHERE live AND (status <> 'refunded' OR EXISTS (
            SELECT FROM orders_refunditem AS other WHERE other.live
                AND other.order_id = item.order_id AND other.seq = item.seq AND other.id <> item.id
        ))
        """,
    ),
)
