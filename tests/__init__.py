"""The tests: jobs, orders, tickets, and the stories of the whole product."""
