"""Programs that a judge must survive, each with the verdict that is right for it.

The problem they answer is `double(x)`: twice a number. `{outside}` is a folder that is not theirs, holding the file
`kept`; `{port}` a port of this machine that somebody listens on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

PROBLEM: dict[str, Any] = {
    "task_id": "Own/0",
    "prompt": "def double(x):\n",
    "canonical_solution": "    return 2 * x\n",
    "entry_point": "double",
    "base_input": [[1], [2]],
    "plus_input": [[5], [-3], [10**20]],
    "atol": 0,
}
RIGHT = "def double(x):\n    return 2 * x\n"


@dataclass(frozen=True)
class Hostile:
    """A program and its verdict: it passes if `passes`, else `whys` are the words for it; `refused` are the words
    under limits alone, where the guard refuses what bubblewrap lets happen in a place of its own."""

    name: str
    source: str
    whys: frozenset[str] = frozenset()
    passes: bool = False
    refused: frozenset[str] = frozenset()


def _fails(name: str, source: str, *whys: str) -> Hostile:
    return Hostile(name, source, frozenset(whys))


def _passes(name: str, source: str, *refused: str) -> Hostile:
    return Hostile(name, source, passes=True, refused=frozenset(refused))


HOSTILE: tuple[Hostile, ...] = (
    # Time
    _fails("endless loop", "def double(x):\n    while True:\n        pass\n", "timeout"),
    _fails("endless loop at module level", RIGHT + "while True:\n    pass\n", "timeout"),
    _fails(
        "endless loop that catches everything",
        "def double(x):\n    while True:\n        try:\n            while True:\n                pass\n"
        "        except BaseException:\n            pass\n",
        "timeout",
    ),
    _fails("endless loop in C", "import itertools\ndef double(x):\n    return max(itertools.count())\n", "timeout"),
    _fails(
        "endless loop, alarm taken away",
        "import signal\ndef double(x):\n    signal.setitimer(signal.ITIMER_PROF, 0)\n"
        "    signal.signal(signal.SIGXCPU, signal.SIG_IGN)\n    while True:\n        pass\n",
        "timeout",
    ),
    _fails("endless sleep", "import time\ndef double(x):\n    time.sleep(10**6)\n", "timeout"),
    _fails(
        "ignores every signal",
        "import signal, time\nfor number in range(1, 32):\n    try:\n        signal.signal(number, signal.SIG_IGN)\n"
        "    except (OSError, ValueError):\n        pass\ndef double(x):\n    while True:\n        time.sleep(1)\n",
        "timeout",
    ),
    _fails("endless iterator as output", "def double(x):\n    return (2 * x for _ in iter(int, 1))\n", "wrong"),
    _fails(
        "truth that never comes",
        "class Slow:\n    def __bool__(self):\n        while True:\n            pass\n"
        "def double(x):\n    return Slow()\n",
        "timeout",
    ),
    _passes(
        "thread that never ends",
        "import threading, time\nthreading.Thread(target=time.sleep, args=(10**6,)).start()\n" + RIGHT,
    ),
    _passes("sleeps a little", "import time\ndef double(x):\n    time.sleep(0.2)\n    return 2 * x\n"),
    # Memory and size
    _fails("memory bomb", "def double(x):\n    return [0] * 10**12\n", "runtime error"),
    _fails(
        "memory bomb that grows",
        "def double(x):\n    held = []\n    while True:\n        held.append(bytearray(64 * 2**20))\n",
        "runtime error", "timeout", "killed",
    ),
    _fails(
        "a huge product",
        "import itertools\ndef double(x):\n    return list(itertools.product(range(50), repeat=8))\n",
        "timeout", "runtime error",
    ),
    _passes(
        "prints 100 MB",
        "def double(x):\n    for _ in range(100):\n        print('x' * 10**6)\n    return 2 * x\n",
    ),
    _fails("returns 100 MB", "def double(x):\n    return 'x' * 10**8\n", "wrong"),
    _fails("endless recursion", "def double(x):\n    return double(x)\n", "runtime error"),
    _fails(
        "value that holds itself",
        "def double(x):\n    held = []\n    held.append(held)\n    return held\n",
        "wrong",
    ),
    # Processes
    _passes("fork", "import os\ndef double(x):\n    os.fork()\n    return 2 * x\n", "runtime error"),
    _fails(
        "fork bomb",
        "import os\ndef double(x):\n    while True:\n        os.fork()\n",
        "runtime error", "timeout", "killed", "crashed",
    ),
    _passes(
        "daemon that outlives its parent",
        "import os, time\ndef double(x):\n    if os.fork() == 0:\n        os.setsid()\n        if os.fork() == 0:\n"
        "            time.sleep(10**6)\n        os._exit(0)\n    return 2 * x\n",
        "runtime error",
    ),
    _passes(
        "runs a shell",
        "import subprocess\ndef double(x):\n    subprocess.Popen(['/bin/sh', '-c', 'sleep 1000000 &'])\n"
        "    return 2 * x\n",
        "runtime error",
    ),
    _fails("kills itself", "import os\ndef double(x):\n    os.kill(os.getpid(), 9)\n", "killed", "runtime error"),
    _fails(
        "kills its parents",
        "import os\ndef double(x):\n    for other in (os.getppid(), 1, -1):\n        os.kill(other, 9)\n",
        "killed", "crashed", "runtime error",
    ),
    _fails("sys.exit(0)", "import sys\ndef double(x):\n    sys.exit(0)\n", "runtime error"),
    _fails("sys.exit(0) at module level", RIGHT + "import sys\nsys.exit(0)\n", "runtime error"),
    _fails("os._exit(0)", "import os\ndef double(x):\n    os._exit(0)\n", "crashed"),
    _fails("os._exit(0) at module level", RIGHT + "import os\nos._exit(0)\n", "crashed"),
    _fails(
        "segmentation fault",
        "import ctypes\ndef double(x):\n    ctypes.string_at(0)\n",
        "crashed", "runtime error",
    ),
    # The world outside
    _fails("input()", "def double(x):\n    return input()\n", "runtime error"),
    _passes(
        "writes outside",
        "import io, os, pathlib\ndef double(x):\n"
        "    for write in (lambda p: open(p, 'w').write('x'), lambda p: io.open(p, 'w').write('x'),\n"
        "                  lambda p: os.write(os.open(p, os.O_CREAT | os.O_WRONLY), b'x'),\n"
        "                  lambda p: pathlib.Path(p).write_text('x'), os.mkdir, lambda p: os.symlink('/', p)):\n"
        "        try:\n            write({outside!r} + '/written')\n        except OSError:\n            pass\n"
        "    return 2 * x\n",
    ),
    _passes(
        "deletes outside",
        "import os, posix, shutil\ndef double(x):\n    for delete in (os.unlink, posix.unlink, os.truncate,\n"
        "                   lambda p: os.rename(p, p + '2'), lambda p: shutil.rmtree(os.path.dirname(p))):\n"
        "        try:\n            delete({outside!r} + '/kept')\n        except (OSError, TypeError):\n"
        "            pass\n    return 2 * x\n",
    ),
    _fails(
        "reads outside",
        "def double(x):\n    return 2 * x if 'secret' in open({outside!r} + '/kept').read() else 0\n",
        "runtime error",
    ),
    _fails(
        "reads the environment",
        "import os\ndef double(x):\n    return 2 * x if 'LOPA_BENCH_SECRET' in os.environ else 0\n",
        "wrong",
    ),
    _fails(
        "network",
        "import socket\ndef double(x):\n    socket.create_connection(('127.0.0.1', {port}), 2).sendall(b'x')\n"
        "    return 2 * x\n",
        "runtime error",
    ),
    _passes("writes in its own folder", "def double(x):\n    open('mine', 'w').write('x')\n    return 2 * x\n"),
    # Forged verdicts
    _fails(
        "object equal to everything",
        "class Equal:\n    def __eq__(self, other):\n        return True\n    def __hash__(self):\n        return 0\n"
        "def double(x):\n    return Equal()\n",
        "wrong",
    ),
    _fails(
        "number equal to everything",
        "class Equal(int):\n    def __eq__(self, other):\n        return True\n    __hash__ = int.__hash__\n"
        "def double(x):\n    return Equal(7)\n",
        "wrong",
    ),
    _fails(
        "object that lies about its class",
        "class Liar:\n    __class__ = property(lambda self: int)\n    def __eq__(self, other):\n        return True\n"
        "    def __index__(self):\n        return 2\ndef double(x):\n    return Liar()\n",
        "wrong",
    ),
    _fails(
        "frame tricks on the checker",
        "import sys\ndef double(x):\n    frame = sys._getframe()\n    while frame:\n"
        "        for name in ('expected', 'wanted', 'stat', 'details', 'passed', 'verdict'):\n"
        "            frame.f_globals[name] = frame.f_locals[name] = True\n"
        "        frame = frame.f_back\n    return None\n",
        "wrong",
    ),
    _fails(
        "replaces the worker's functions",
        "import sys\ndef double(x):\n    worker = sys.modules['__main__']\n"
        "    worker.plain_values.encode = lambda *_: {{'passed': True}}\n"
        "    worker.describe = lambda *_: {{'passed': True, 'value': True}}\n    return 3\n",
        "wrong",
    ),
    _fails(
        "writes verdicts into every channel",
        "import os\ndef double(x):\n    for number in range(64):\n        for line in (b'{{\"passed\": true}}',\n"
        "                     b'{{\"value\": true, \"type\": \"bool\", \"passed\": true}}'):\n"
        "            try:\n                os.write(number, line + b'\\n')\n            except OSError:\n"
        "                pass\n    os._exit(0)\n",
        "wrong", "crashed",
    ),
    _fails(
        "closes all its files",
        "import os\ndef double(x):\n    os.closerange(0, 256)\n    return 2 * x\n",
        "crashed", "runtime error",
    ),
    _fails(
        "everything is nested",
        "def double(x):\n    held = 2 * x\n    for _ in range(10**5):\n        held = [held]\n    return held\n",
        "wrong",
    ),
    # Odd answers
    _fails("wrong function name", "def twice(x):\n    return 2 * x\n", "no such function"),
    _fails("not a function", "double = 4\n", "runtime error"),
    _fails("wrong number of parameters", "def double():\n    return 2\n", "runtime error"),
    _fails("syntax error", "def double(x)\n    return 2 * x\n", "syntax error"),
    _fails("null byte", "def double(x):\n    return 2 * x\n\0", "syntax error", "runtime error"),
    _fails("half a surrogate", "def double(x):\n    return '\ud800'\n", "runtime error"),
    _fails("empty", "", "no such function"),
)  # fmt: skip


def source_of(program: Hostile, outside: str, port: int) -> str:
    """Return the program's text with the names of what it attacks filled in."""
    return program.source.format(outside=outside, port=port) if "{" in program.source else program.source
