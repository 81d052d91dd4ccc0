"""One run on several processes: how they are started, arranged, and talk to each other."""
