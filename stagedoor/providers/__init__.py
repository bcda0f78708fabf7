"""HTTP email providers: one file each, how it is called and how it calls back.

django-anymail speaks to them; here is what it leaves out: the idempotency key in each provider's
own form, a Message-ID that stays where it can, and hooks that accept nothing unsigned. A provider's
`Mailer` is what `settings.MAILERS` names, its `hook(secret)` the view of `/hooks/mail/<provider>/`.
docs/operations.md has the table of what each of them keeps.
"""
