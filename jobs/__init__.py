"""The way of a job, from a database transaction to its effects.

    enqueue()            outbox.py     one outbox row, in the caller's transaction
      relay.step()       relay.py      due rows -> entries on the stream (stream.py), then marked
        Worker           worker.py     entries -> free slots, acknowledgements
          parse_job()    job.py        bytes -> a typed job, or MalformedJob
            run_job()    runner.py     its handler (registry.py), its effects(), an outcome
              acknowledge              only after that commit

A job is in exactly one place (models.py): an OutboxRow while it is not done, a ProcessedJob
once it is. The stream only carries the news that it is due.
"""
