"""Selling: events, ticket types, places left, orders; the only writer of those tables."""
