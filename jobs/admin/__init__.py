"""What staff see of the queue in Django admin: how it is, dead jobs, held kinds, schedules."""

from django.contrib import admin

from jobs.models import DeadJob, KindHold, Purge, Sample, ScheduledRun

from .dead_jobs import DeadJobAdmin
from .kinds import KindHoldAdmin
from .purges import PurgeAdmin
from .queue import QueueAdmin
from .schedules import ScheduleAdmin

admin.site.register(DeadJob, DeadJobAdmin)
admin.site.register(KindHold, KindHoldAdmin)
admin.site.register(Purge, PurgeAdmin)
admin.site.register(Sample, QueueAdmin)
admin.site.register(ScheduledRun, ScheduleAdmin)
