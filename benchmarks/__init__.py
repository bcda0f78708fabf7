"""`make bench`: the product beside the bare tools, in one run, with the same durability.

orders.py   `POST /orders/` beside a bare view with the same SQL (bare.py), also while renders run
renders.py  the render pool beside bare WeasyPrint (weasy.py) on the same HTML
jobs.py     relay and worker beside the same commits by bare psycopg

Both sides alternate, A B then B A; what is compared is the ratio within a round. Also an app of
Django's: settings.py adds it, so that the worker finds its kind of job (handlers.py).
"""
