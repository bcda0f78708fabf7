"""`make demo-faults`: plays faults against a running `make run`, and says what one sees.

It harms the processes and mail of that copy alone, and puts right what it has put wrong.
"""
