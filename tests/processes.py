"""Several processes that know of each other, as torchrun would start them."""

import os
import socket
import subprocess
import sys


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def start(count, words):
    """One process for each rank, all with the same words."""
    port = str(free_port())
    return [
        subprocess.Popen(
            [sys.executable, *words],
            env=os.environ
            | {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(count),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
                "OMP_NUM_THREADS": "1",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]


def finished(processes, timeout=200):
    """What each said, and its exit code."""
    try:
        said = [each.communicate(timeout=timeout) for each in processes]
    finally:
        for each in processes:
            each.kill()
    return [(each.returncode, out, err) for each, (out, err) in zip(processes, said, strict=True)]
