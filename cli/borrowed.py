"""Flags that a command takes over from another, so that each is described in one place."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Collection
from typing import Annotated, Any, get_args, get_type_hints

Hint = Any


def with_flags_of(
    command: Callable[..., Any],
    body: Callable[..., Any],
    *,
    only: Collection[str] | None = None,
    without: Collection[str] = (),
    changed: Callable[[str, Hint], Hint] = lambda name, hint: hint,
) -> Callable[..., None]:
    """Return a command that takes `body`'s parameters and, behind them, those of `command`.

    `body` reads the latter from `context.params`; so a new flag of `run` is one of `noise` too.

    Args:
        command: what the flags are taken from.
        body: what is called; a parameter of its own stands in place of the command's of that name.
        only: names of the flags to take, all where it is None.
        without: names of flags to leave.
        changed: gives each flag taken, by its name and annotated type, the annotated type that it has here.
    """
    own, borrowed = inspect.signature(body).parameters, inspect.signature(command).parameters
    names = [name for name in borrowed if name not in (*own, *without) and (only is None or name in only)]
    theirs, ours = (get_type_hints(one, include_extras=True) for one in (command, body))
    hints = {name: changed(name, theirs[name]) for name in names} | {name: ours[name] for name in own}

    def combined(**values: Any) -> None:
        body(**{name: value for name, value in values.items() if name in own})

    combined.__doc__ = body.__doc__
    everything = {**own, **{name: borrowed[name] for name in names}}
    parameters = [one.replace(annotation=hints[name]) for name, one in everything.items()]
    combined.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    combined.__annotations__ = {name: hints[name] for name in everything}
    return combined


def as_list(hint: Hint, panel: str) -> Hint:
    """Return an option that takes a text, one value or several with commas, under the same names and help."""
    option = copy.copy(get_args(hint)[1])
    option.rich_help_panel, option.metavar = panel, None
    return Annotated[str | None, option]
