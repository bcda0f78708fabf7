"""What staff see of the queue in Django admin: dead jobs, and which kinds are held."""

from django.contrib import admin

from jobs.models import DeadJob, KindHold

from .dead_jobs import DeadJobAdmin
from .kinds import KindHoldAdmin

admin.site.register(DeadJob, DeadJobAdmin)
admin.site.register(KindHold, KindHoldAdmin)
