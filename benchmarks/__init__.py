"""`make bench`: the product beside the bare tools, in one run, with the same durability.

orders.py   `POST /orders/` beside a bare view with the same SQL (bare.py), also while renders run
renders.py  the render pool beside bare WeasyPrint (weasy.py) on the same HTML
jobs.py     relay and worker beside the same commits by bare psycopg: one row a job, and none
latency.py  commit to handler start at 50 jobs a second beside bare NOTIFY, XADD, XREADGROUP
memory.py   a worker after 1,000 and after 50,000 jobs, beside a bare loop (loop.py)
relay.py    a relay alone beside its statements (carrier.py): rows a second, commit to entry,
            recovery from a Redis that lost its memory; what an idle relay asks of the servers
dead_jobs.py  the admin's pages with 10,000 dead jobs beside 50
scrape.py   a scrape of the queue's series, alone, after a season, on a night
history.py  jobs with and without 80,000 old entries and 1,000,000 old rows, beside the same

Both sides alternate, A B then B A; what is compared is the ratio within a round. All of it takes
about twelve minutes on two cores. Also an app of Django's: settings.py adds it, so that the worker
finds its kinds of job (handlers.py).
"""
