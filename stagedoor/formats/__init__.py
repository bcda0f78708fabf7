"""How the admin writes dates, by language: Django looks here."""
