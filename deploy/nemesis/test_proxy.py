"""Tests of the proxies: what they hold arrives later, and a reset ends connections at once."""

import contextlib
import socket
import socketserver
import threading
import time
import unittest

from topology import Proxies


class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        with contextlib.suppress(ConnectionResetError):
            while data := self.request.recv(1024):
                self.request.sendall(data)


class ProxiesTest(unittest.TestCase):
    def setUp(self):
        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.proxies = Proxies()
        port = self.proxies.add("echo", self.server.server_address[1])
        self.proxies.start()
        self.client = socket.create_connection(("127.0.0.1", port), timeout=30)

    def tearDown(self):
        self.client.close()
        self.proxies.end()
        self.server.shutdown()
        self.server.server_close()

    def echo(self, data):
        self.client.sendall(data)
        return self.client.recv(1024)

    def test_bytes_pass_in_both_directions(self):
        self.assertEqual(self.echo(b"one"), b"one")
        self.assertEqual(self.echo(b"two"), b"two")

    def test_held_bytes_arrive_after_the_partition(self):
        for direction in ("up", "down"):
            with self.subTest(direction):
                self.proxies.change("echo", **{direction: {"held": True}})
                self.client.sendall(b"held")
                self.client.settimeout(0.5)
                self.assertRaises(TimeoutError, self.client.recv, 1024)
                self.client.settimeout(30)
                self.proxies.change("echo", up={}, down={})
                self.assertEqual(self.client.recv(1024), b"held")

    def test_delay_applies_to_each_direction(self):
        self.proxies.change("echo", up={"delay_s": 0.2}, down={"delay_s": 0.3})
        begun = time.monotonic()
        self.assertEqual(self.echo(b"late"), b"late")
        self.assertGreaterEqual(time.monotonic() - begun, 0.5)

    def test_reset_ends_connections(self):
        self.assertEqual(self.echo(b"one"), b"one")
        self.proxies.change("echo", reset=True)
        self.assertRaises(ConnectionResetError, self.client.recv, 1024)


if __name__ == "__main__":
    unittest.main()
