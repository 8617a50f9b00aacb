"""Clients of the API and of the short host, each a thread with a random generator of its own. A third of the requests goes
through nginx."""
