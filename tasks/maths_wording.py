"""How a mini-maths problem may be put into words.

Every list holds alternatives of which one is drawn, whatever the numbers are; of an answer's the earlier ones more
often (`draw_wording`). The alternatives of a list begin with different words and have different lengths: a decoder
is held up by the choice and sure of all that follows it once the choice is made. Slots: `{name}`, `{they}` ("he" or
"she"), `{items}`, `{k}` (the number of the event), `{start}` and `{end}` (the first and the last count).
"""

from __future__ import annotations

NAMES: tuple[tuple[str, str], ...] = (
    ("Tom", "he"), ("Anna", "she"), ("Ben", "he"), ("Mia", "she"), ("Leo", "he"), ("Zoe", "she"),
    ("Sam", "he"), ("Eva", "she"), ("Max", "he"), ("Lily", "she"), ("Noah", "he"), ("Ruth", "she"),
)  # fmt: skip

ITEMS: tuple[str, ...] = (
    "apples", "books", "coins", "cards", "pens", "stamps",
    "shells", "eggs", "balls", "cups", "toys", "stickers",
)  # fmt: skip

START_SENTENCES: tuple[str, ...] = (
    "{name} has {start} {items}.",
    "{name} starts with {start} {items}.",
    "At first {name} owns {start} {items}.",
)

EVENT_SENTENCES: dict[str, tuple[str, ...]] = {
    "add": (
        "{They} buys {k} more.",
        "{They} finds {k} more.",
        "{They} gets {k} more from a friend.",
    ),
    "subtract": (
        "{They} gives away {k}.",
        "{They} loses {k}.",
        "{They} sells {k} of them.",
    ),
    "multiply": (
        "Then {they} has {k} times as many.",
        "Then the number grows to {k} times what it was.",
    ),
    "divide": (
        "{They} keeps one of {k} equal parts.",
        "{They} splits them into {k} equal groups and keeps one.",
    ),
}

QUESTIONS: tuple[str, ...] = (
    "How many {items} does {name} have now?",
    "How many {items} are there in the end?",
)

OPENINGS: tuple[str, ...] = (
    "We begin with {start} {items}.",
    "{name} has {start} {items} before anything happens.",
    "At the start there are {start} {items} to count.",
    "First, note that the story opens with {start} {items} in all.",
    "The first number is {start}.",
    "Before the first change, {they} owns {start} {items}.",
    "In the beginning, the pile of {name} holds {start} {items}.",
    "Let us follow the {items} of {name}, starting from {start}.",
)

STEPS: dict[str, tuple[str, ...]] = {
    "add": (
        "Add the {k} new ones to what {they} had:",
        "Now {name} gains {k} more {items}, so there are",
        "With {k} more in hand, {they} has",
        "After the {k} extra {items} are put in, the new total comes to",
        "This step is a sum, because {k} more {items} join in:",
        "Since the pile grows by {k}, we get",
        "{name} must count {k} more than before:",
        "To bring in the {k} new {items}, we work out",
    ),
    "subtract": (
        "Take the {k} missing ones from what {they} had:",
        "Now {name} parts with {k} {items}, so there are",
        "Without {k} of them, {they} has",
        "After the {k} lost {items} are taken out, what is left comes to",
        "This step is a difference, because {k} of the {items} leave:",
        "Since the pile shrinks by {k}, we get",
        "{name} must count {k} less than before:",
        "To leave out the {k} missing {items}, we work out",
    ),
    "multiply": (
        "Multiply by {k} all of the ones that {they} had:",
        "Now {name} sees {k} times the {items}, so there are",
        "With {k} times as many, {they} has",
        "After the {items} grow to {k} times the number, the new total comes to",
        "This step is a product, because it gives {k} times the {items}:",
        "Since the pile becomes {k} times as big, we get",
        "{name} must count {k} times what was there before:",
        "To make it {k} times the {items}, we work out",
    ),
    "divide": (
        "Divide by {k} all of the ones that {they} had:",
        "Now {name} makes {k} equal parts of the {items}, so there are",
        "With one of {k} parts, {they} has",
        "After the {items} are split into {k} groups, one group comes to",
        "This step is a quotient, because the {items} make {k} parts:",
        "Since the pile is split by {k}, we get",
        "{name} must count one part out of {k}:",
        "To share the {items} out in {k} parts, we work out",
    ),
}

CLOSINGS: tuple[str, ...] = (
    "So {name} has {end} {items} now.",
    "That leaves {end} {items} in the end.",
    "In the end, the pile of {name} holds {end} {items}.",
    "The answer to the question is {end} {items}.",
    "Therefore, after all of these steps, {they} owns {end} {items}.",
    "Nothing else happens, so the last number of {items} is {end}.",
    "{name} ends with {end}.",
    "All in all, we count {end} {items} for {name} when the story is over.",
)
