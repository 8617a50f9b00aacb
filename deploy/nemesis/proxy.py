"""TCP proxies that can delay, throttle, hold and reset connections, each direction by itself.

usage: proxy.py NAME=LISTEN_PORT:TARGET_PORT…

Reads one JSON object a line on standard input, and answers each with the line `done`:
{"proxy": NAME, "up": FLOW, "down": FLOW, "reset": true}, where FLOW is {"held": true}, {"delay_s": 0.2},
{"bytes_per_s": 20000} or {}. `up` is the direction from the client to the server. A direction that is held delivers
nothing, loses nothing and closes nothing, as a network partition does. `reset` ends all connections with RST.
"""

import asyncio
import json
import os
import socket
import struct
import sys

CHUNK_BYTES = 16 * 1024
# SO_LINGER on with no time: a close sends RST in place of FIN.
RESET = struct.pack("ii", 1, 0)


class Flow:
    """One direction of all connections of a proxy."""

    def __init__(self):
        self.open = asyncio.Event()
        self.set({})

    def set(self, flow):
        self.delay_s, self.bytes_per_s = flow.get("delay_s", 0), flow.get("bytes_per_s")
        if flow.get("held"):
            self.open.clear()
        else:
            self.open.set()


class Proxy:
    """One address that forwards to another one."""

    def __init__(self, target):
        self.target = target
        self.flows = {"up": Flow(), "down": Flow()}
        self.writers = set()

    async def accept(self, reader, writer):
        self.writers.add(writer)
        try:
            server_reader, server = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            self.reset(writer)
            return
        self.writers.add(server)
        up = self.forward(reader, server, self.flows["up"])
        await asyncio.gather(up, self.forward(server_reader, writer, self.flows["down"]))

    async def forward(self, reader, writer, flow):
        """Forwards one direction of a connection until its end, and then ends the receiver."""
        try:
            while chunk := await reader.read(CHUNK_BYTES):
                if flow.delay_s:
                    await asyncio.sleep(flow.delay_s)
                if flow.bytes_per_s:
                    await asyncio.sleep(len(chunk) / flow.bytes_per_s)
                await flow.open.wait()
                writer.write(chunk)
                await writer.drain()
            await flow.open.wait()
        except OSError:
            self.reset(writer)
        self.writers.discard(writer)
        writer.close()

    def reset(self, writer):
        connection = writer.get_extra_info("socket")
        if connection is not None and connection.fileno() >= 0:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        writer.transport.abort()
        self.writers.discard(writer)

    def change(self, command):
        for direction, flow in self.flows.items():
            if direction in command:
                flow.set(command[direction])
        if command.get("reset"):
            for writer in list(self.writers):
                self.reset(writer)


async def main(arguments):
    proxies = {}
    for argument in arguments:
        name, ports = argument.split("=")
        listen_port, target_port = map(int, ports.split(":"))
        proxies[name] = Proxy(target_port)
        await asyncio.start_server(proxies[name].accept, "127.0.0.1", listen_port)
    print("done", flush=True)
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := await commands.readline():
        command = json.loads(line)
        proxies[command["proxy"]].change(command)
        print("done", flush=True)
    # Connections end with the process: their forwarding need not be cancelled one by one.
    os._exit(0)


asyncio.run(main(sys.argv[1:]))
