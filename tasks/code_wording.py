"""Names and comments of mini-code.

The names are fixed by the prompt. The comments are free: of each list one is drawn, the earlier ones
more often (`draw_wording`), whatever the problem is; the alternatives begin with different words and have different
lengths. Slots: `{function}`,
`{argument}`, `{x}` (the element), `{result}`.
"""

from __future__ import annotations

FUNCTION_NAMES: tuple[str, ...] = ("f", "solve", "calc", "compute", "run", "process", "build", "work")
LIST_NAMES: tuple[str, ...] = ("xs", "nums", "values", "data")
TEXT_NAMES: tuple[str, ...] = ("s", "text", "line", "phrase")
NUMBER_NAMES: tuple[str, ...] = ("x", "n", "v", "e")
WORD_NAMES: tuple[str, ...] = ("w", "c", "t", "p")
RESULT_NAMES: tuple[str, ...] = ("total", "result", "acc", "out")

START_COMMENTS: tuple[str, ...] = (
    "Go through {argument} from first to last.",
    "Look at every element once and use what fits.",
    "The name {x} stands for each element in turn, as it was asked.",
    "This works for any input, an empty one as well.",
    "We get what is asked for step by step, and {result} is the name for it.",
    "One pass over it and nothing more.",
    "All of the work of {function} happens right here, below this line.",
    "Note that {argument} stays as it is, since we only read it.",
)

ELEMENT_COMMENTS: tuple[str, ...] = (
    "Check {x} before it is used.",
    "Only some of the elements count, so test this one first.",
    "Here {x} is the element that we look at.",
    "Does this one fit?",
    "If the test fails, {x} is treated in the other way.",
    "Every {x} gets the same treatment, whatever came before it.",
    "Another element, named {x}, to decide about.",
    "Next comes the condition that was asked for.",
)

RETURN_COMMENTS: tuple[str, ...] = (
    "Hand the answer back.",
    "It remains to return what was asked for, and nothing else.",
    "Whoever called {function} gets this.",
    "Finally, give the outcome back to the one who called {function}.",
    "At this point no other work has to be done.",
    "Return the value that the description is about.",
    "And this is it.",
    "Now {function} is ready to answer.",
)
