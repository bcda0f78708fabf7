"""The way of a job, from a database transaction to its effects.

    enqueue()            outbox.py       one outbox row, in the caller's transaction
      relay.step()       relay.py        due rows -> entries on the stream (stream/), then marked
        Worker           worker.py       one loop: reads into free slots, acknowledges outcomes
          Intake         intake.py       read, sorted, given to slots or concluded
          Reading        reading.py      own pending entries, what dead workers left, new ones
          Sorter         sorting.py      parse_job() (job.py), the row's state: run it, or conclude
          Held, Slot     held.py         what is held; suspects one at a time
            Runner       runner.py       a handler (registry.py), its effects() (run.py), an outcome
              conclusion.py              T3 processed · T6 retry, wait, dead · T9 starts
              dead_letters.py            T6 dead, then the letter on jobs:dead
          Acknowledger   acknowledger.py XACK, only after that commit
          watch.py, waiting.py           leases, signs of life, stuck jobs; outages

A job is in exactly one place (models.py): an OutboxRow while it is not done, a ProcessedJob
once it is. The stream only carries the news that it is due. `audit/` proves it, sharing no code.
`status/` shows the queue as it is, `doctor/` whether servers and settings will do.
"""
