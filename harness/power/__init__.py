"""Power loss without pulling a plug (STO-18): a worker notes what it has synced, is killed, and from its
files images are made in which everything it had not synced is old, new or torn at random.

`record` keeps the note inside the worker process, `worker` is the command that starts one with it, `images`
makes the images, `reopening` opens one with the real worker code, `alone` and `cluster` are the trials.
"""
