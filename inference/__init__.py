"""The flow's side of inference: the client of one worker, and the pool of workers."""
