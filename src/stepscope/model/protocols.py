"""What plugins promise: trace formats and measures, and what they read and return."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Literal, Protocol

import msgspec

from stepscope.model.records import Answer, Scale
from stepscope.model.trajectory import Case, Facts, Json, Trajectory, Usage
from stepscope.safety.limits import Limits

# How structured output was asked for; what an endpoint can do is told, not assumed.
Structure = Literal["json_schema", "json_object_schema", "forced_tool", "prompt_only"]
# Why the model stopped. Only "end" can become a verdict.
Stop = Literal["end", "length", "refusal", "filter", "tool", "other"]
# Types that every provider takes.
ImageType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]


class Media(msgspec.Struct, frozen=True, kw_only=True):
    """An image that goes with a request."""

    content_type: ImageType  # as its bytes say it
    data: str  # its bytes, base64
    sha256: str  # of its bytes
    words: str = ""  # the line of ours before it, which says whose it is


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One question to one model."""

    system: str  # the rubric and how to answer; never text of a trace
    context: str  # the trace as fenced data; the same for all axes of a run, so that it is cached
    question: str  # what is asked of that context, last
    schema_name: str  # name of the schema, letters and underscores
    schema: dict[str, Json]  # JSON schema of the answer; every field required, no others allowed
    max_output_tokens: int = 2_048  # where the answer is cut off
    temperature: float | None = None  # of sampling; None leaves the provider's
    seed: int | None = None  # where the provider takes one
    # further parameters of the provider, from the user's configuration alone
    extra: dict[str, Json] = msgspec.field(default_factory=dict)
    media: tuple[Media, ...] = ()  # images of that trace, after the context and before the question


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What came back, whole."""

    text: str  # the answer's text as the model wrote it, at most the byte cap of a reply
    stop: Stop  # why the model stopped
    structure: Structure  # how structured output was asked for
    # tokens; the input total includes what was cached. None where the provider says none.
    usage: Usage | None = None
    model: str = ""  # the snapshot that answered, as the provider names it
    request_id: str = ""  # the provider's, for its support; "" where there is none
    seconds: float = 0.0  # from sending to the last byte, on the monotonic clock
    raw: bytes = b""  # the bytes of the reply, as received
    # rate limits and the like, names in lower case; never credentials
    headers: dict[str, str] = msgspec.field(default_factory=dict)


class Model(Protocol):
    """A judge model: asks a provider once, without retries; see `stepscope.models`."""

    @property
    def name(self) -> str:
        """Provider, slash, model: "openai/gpt-5"."""

    async def complete(self, request: Request) -> Reply:
        """Ask once.

        Raises:
            ModelError: nothing usable came back; it says whether asking again may help, and when.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a judge model is and what opens it, as the operator configured it."""

    name: str  # provider, slash, model
    base_url: str  # its address, without a slash at its end
    # what opens it; "" where it needs none. Never part of a message or a `repr`.
    key: str = field(default="", repr=False)
    own: bool = False  # whether the address is the provider's own, not one that speaks its protocol
    structure: Structure | None = None  # how structured output is asked for; None finds out

    @property
    def model(self) -> str:
        """The model's name, as its provider knows it."""
        return self.name.partition("/")[2]


class Opener(Protocol):
    """Opens the models that speak one protocol: what the entry point of a model plugin names."""

    def __call__(self, endpoint: Endpoint) -> Model:
        """Return the model at an endpoint; nothing is sent yet."""


class Quarantined(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A record that could not be read: where it stands, why, and its bytes (all of them)."""

    reason: str
    offset: int
    raw: bytes
    uri: str = ""


class Stream(msgspec.Struct, frozen=True):
    """What a format reads from: an open binary file, what to call it in messages, the limits."""

    file: BinaryIO
    uri: str
    limits: Limits = Limits()


class Format(Protocol):
    """A trace format: `sniff` the first bytes, `read` runs; see `stepscope.formats`."""

    @property
    def name(self) -> str:
        """The name that `--format` takes."""

    def sniff(self, head: bytes) -> float:
        """Confidence, 0 to 1, that a file starting with `head` is of this format."""

    def read(self, stream: Stream) -> Iterator[Trajectory | Quarantined]:
        """Yield every run of the file; what cannot be read comes out as `Quarantined`."""


class Measure(Protocol):
    """Anything that reads a run and answers; pure.

    `learns` names the tables of `Facts` that it uses. For each of its aspects it gives exactly one
    answer about the whole run, and any number about steps.
    """

    @property
    def name(self) -> str:
        """The name that records carry."""

    @property
    def version(self) -> str:
        """Raised with every change that can change an answer."""

    @property
    def scale(self) -> Scale:
        """The values that its answers may take."""

    @property
    def learns(self) -> tuple[str, ...]:
        """The tables of `Facts` that it uses."""

    def __call__(
        self, trajectory: Trajectory, case: Case | None, facts: Facts | None
    ) -> Iterable[Answer]:
        """Answer about one run."""
