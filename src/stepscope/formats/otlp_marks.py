"""The names under which our spans keep what the conventions have no word for.

Source: OpenTelemetry's naming rules: attributes of a vendor stand under the vendor's name.
"""

from __future__ import annotations

import msgspec

from stepscope.model import Json

# On a trace's root: what spans cannot say of the run, and the version of all that is kept so.
MARK = "stepscope.run"
SCHEMA_KEY = "stepscope.schema"
SCHEMA = 1
# On the root of recorded spans: the ids of all of them, in the order in which they were first read.
SPANS_KEY = "stepscope.spans"
# On a span that was recorded: what OTLP cannot say of it.
SPAN_KEY = "stepscope.span"
# On spans that we made: how many steps there are; what messages cannot say of the steps they tell;
# messages that no later answer was given.
COUNT_KEY = "stepscope.steps.count"
STEPS_KEY = "stepscope.steps"
MESSAGES_KEY = "stepscope.messages"

# The instrumentation that our own spans name.
SCOPE = "stepscope"

# Text of one attribute that readers keep whole; what is longer is written as a structure.
_TEXT_MOST = 1_000_000


def packed(value: Json) -> Json:
    """Return a structure as the JSON text that attributes hold; a very long one as it is."""
    text = msgspec.json.encode(value)
    return text.decode() if len(text) <= _TEXT_MOST else value
