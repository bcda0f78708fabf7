"""The database backend: Django's PostgreSQL with its connections and statements counted."""
