"""What staff see of the queue in Django admin: dead jobs, and which kinds are held."""

from django.contrib import admin

from jobs.models import DeadJob, KindHold, Purge

from .dead_jobs import DeadJobAdmin
from .kinds import KindHoldAdmin
from .purges import PurgeAdmin

admin.site.register(DeadJob, DeadJobAdmin)
admin.site.register(KindHold, KindHoldAdmin)
admin.site.register(Purge, PurgeAdmin)
