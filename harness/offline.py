"""Switches that keep the hub's libraries off the network; they are read at import, so they must be set first."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lopa_bench.errors import PrerequisiteError

# The interpreter's events that reach for another machine, with the argument that names it.
CONNECTIONS = {
    "socket.connect": 1, "socket.sendto": 1, "socket.sendmsg": 1, "socket.getaddrinfo": 0, "socket.gethostbyname": 0,
}  # fmt: skip
OFFLINE_SWITCHES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")


def go_offline() -> list[str]:
    """Forbid every download from the hub in this process.

    Returns:
        The libraries that had already read the switches and may not obey them: empty when called in time.
    """
    for switch in OFFLINE_SWITCHES:
        os.environ[switch] = "1"
    use_private_dataset_cache()
    too_late = []
    for library, constant in (("huggingface_hub.constants", "HF_HUB_OFFLINE"), ("datasets.config", "HF_HUB_OFFLINE")):
        module = sys.modules.get(library)
        if module is not None and not getattr(module, constant, True):
            too_late.append(library.partition(".")[0])
    return too_late


def forbid_connections() -> None:
    """Make every attempt to reach another machine an error in this process, whichever library makes it.

    Raises:
        PrerequisiteError: later, where a connection is tried or a name looked up; names the machine.
    """
    if not _forbidden:
        sys.addaudithook(_refuse)  # the interpreter tells of every socket before it is used; no way around it in Python
    _forbidden.add(True)


_forbidden: set[bool] = set()


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in CONNECTIONS or not _forbidden:
        return
    place = arguments[CONNECTIONS[event]]
    host = place[0] if isinstance(place, tuple) else place
    if isinstance(place, tuple | None) or event != "socket.connect":  # else the path of a local socket
        name = host.decode(errors="replace") if isinstance(host, bytes) else str(host or "localhost")
        if name not in ("localhost", "::1") and not name.startswith("127."):
            raise PrerequisiteError(
                f"--offline forbids connections, and one to {name} was tried; leave --offline out, or give local files"
            )


def use_private_dataset_cache() -> None:
    """Send whatever `datasets` may write to a folder of this user, never to a read-only or shared home.

    Only the data sets' cache moves: checkpoints that were fetched before stay where they are found.
    """
    if "HF_DATASETS_CACHE" not in os.environ:
        cache = Path(os.environ.get("XDG_CACHE_HOME", Path(tempfile.gettempdir()) / f"cache-{os.getuid()}"))
        os.environ["HF_DATASETS_CACHE"] = str(cache / "lopa-bench" / "datasets")


def hub_is_out_of_reach(pause_s: float = 1.0) -> bool:
    """Whether the hub certainly cannot be had: its name is unknown here, or nothing takes the connection, twice.

    The hub's libraries find that out too, but only after half a minute of retries. A slow network is left to them: an
    attempt that runs out of time, or a proxy, says nothing.
    """
    if any(os.environ.get(name) for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")):
        return False
    address = urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    place = (address.hostname or "", address.port or (80 if address.scheme == "http" else 443))
    if _is_refused(place):
        time.sleep(pause_s)
        return _is_refused(place)
    return False


def _is_refused(place: tuple[str, int]) -> bool:
    try:
        socket.create_connection(place, timeout=10).close()
    except TimeoutError:
        return False
    except OSError:
        return True
    return False


def is_offline() -> bool:
    """Whether the hub may not be asked."""
    return os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on")
