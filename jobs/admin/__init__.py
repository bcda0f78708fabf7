"""What staff see of the queue in Django admin: how it is, dead jobs, which kinds are held."""

from django.contrib import admin

from jobs.models import DeadJob, KindHold, Purge, Sample

from .dead_jobs import DeadJobAdmin
from .kinds import KindHoldAdmin
from .purges import PurgeAdmin
from .queue import QueueAdmin

admin.site.register(DeadJob, DeadJobAdmin)
admin.site.register(KindHold, KindHoldAdmin)
admin.site.register(Purge, PurgeAdmin)
admin.site.register(Sample, QueueAdmin)
