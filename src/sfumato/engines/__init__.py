"""Where the work is done: threads, processes, a Spark cluster."""
