"""What always holds in the books of selling."""

from jobs.audit import PURGED, Rule, register

REFUNDED = """
    SELECT item.order_id, seq, refund_id, ticket_type_id, price
    FROM orders_refunditem AS item LEFT JOIN (
        SELECT order_id, ticket_type_id, price, quantity,
            sum(quantity) OVER (PARTITION BY order_id ORDER BY id) AS last
        FROM orders_orderline
        WHERE order_id IN (SELECT order_id FROM orders_refunditem WHERE live)
    ) AS line ON line.order_id = item.order_id AND seq BETWEEN last - quantity + 1 AND last
    WHERE live
"""
"""Every refunded admission, and what the line that sold it says; null where none did."""

register(
    Rule(
        "every order has its job, in the outbox or processed",
        f"""
        SELECT 'order ' || id FROM orders_order
        WHERE placed_at >= {PURGED} AND NOT EXISTS (
            SELECT FROM jobs_outbox
            WHERE kind = 'render_tickets' AND subject = 'order:' || orders_order.id
        ) AND NOT EXISTS (
            SELECT FROM jobs_processed
            WHERE kind = 'render_tickets' AND subject = 'order:' || orders_order.id
        ) ORDER BY id
        """,  # noqa: S608 (a constant)
    ),
    Rule(
        "stock taken is what placed orders hold",
        f"""
        SELECT 'ticket type ' || ticket_type_id FROM orders_stock FULL JOIN (
            SELECT ticket_type_id, sum(number) AS sold FROM (
                SELECT ticket_type_id, order_id, quantity AS number FROM orders_orderline
                UNION ALL SELECT ticket_type_id, order_id, -1 FROM ({REFUNDED}) AS refunded
            ) AS holds JOIN orders_order ON orders_order.id = order_id
            WHERE status = 'placed' GROUP BY ticket_type_id
        ) AS placed USING (ticket_type_id)
        WHERE coalesce(taken, 0) <> coalesce(sold, 0) ORDER BY ticket_type_id
        """,  # noqa: S608 (a constant)
    ),
    Rule(
        "every refunded order has refunds of all it cost, every other of less or nothing",
        """
        SELECT 'order ' || id FROM orders_order LEFT JOIN (
            SELECT order_id, sum(amount) AS owed FROM orders_refund GROUP BY order_id
        ) AS refund ON order_id = orders_order.id
        WHERE coalesce(owed, 0) > total OR (status = 'refunded' AND coalesce(owed, 0) < total)
        ORDER BY id
        """,
    ),
    Rule(
        "every refund is of what its admissions cost",
        f"""
        SELECT 'refund ' || id FROM orders_refund LEFT JOIN (
            SELECT refund_id, sum(price) AS price FROM ({REFUNDED}) AS refunded GROUP BY refund_id
        ) AS item ON refund_id = orders_refund.id
        WHERE amount IS DISTINCT FROM price ORDER BY id
        """,  # noqa: S608 (a constant)
    ),
    Rule(
        "no admission is refunded twice, or of an order that has no such one",
        f"""
        SELECT 'order ' || order_id FROM ({REFUNDED}) AS refunded
        GROUP BY order_id HAVING count(*) > count(DISTINCT seq) OR count(*) > count(price)
        ORDER BY order_id
        """,  # noqa: S608 (a constant)
    ),
    Rule(
        "an order is refunded when its last admission is, and not before",
        """
        SELECT 'order ' || id FROM orders_order LEFT JOIN (
            SELECT order_id, count(*) AS gone FROM orders_refunditem WHERE live GROUP BY order_id
        ) AS item ON item.order_id = id
        WHERE (gone > 0 OR status = 'refunded') AND (
            status NOT IN ('placed', 'refunded') OR (status = 'refunded') <> (
                coalesce(gone, 0) >= (
                    SELECT sum(quantity) FROM orders_orderline WHERE order_id = orders_order.id
                )
            )
        ) ORDER BY id
        """,
    ),
)
