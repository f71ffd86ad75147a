"""Images go to a judge when they are asked for, within limits; what is left out is told."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

import msgspec
import pytest

from stepscope.judges.judgement import Judgement, JudgeMode, JudgingOptions, record_prompt
from stepscope.judges.plan import MOST_BYTES_PER_IMAGE, most_images
from stepscope.judges.rubrics import load_rubric
from stepscope.judges.tools import add_tools, trajectory_tools
from stepscope.judges.transcript import bound_tokens
from stepscope.model import Media, Part, PartKind, Request, Step, Trajectory
from stepscope.models.dialect import Ask, reply_key, request_hash
from tests.factories import agent, did, run, user
from tests.judges.believed import JUDGE, KEY, REDACTOR, answered, goals, judgement, planned
from tests.judges.pictures import encoded, gif, jpeg, looked, picture, png, webp
from tests.models.scripted import REQUEST

FIRST, SECOND = png(640, 480, fill=b"first"), png(640, 480, fill=b"second")
WIDE = msgspec.structs.replace(JUDGE, context_tokens=1_000_000)
SENT = JudgingOptions(send_media=True)
SEEN = run(
    user("Is the red lamp on?"),
    looked(picture(FIRST)),
    agent("I cannot see it yet."),
    looked(picture(SECOND)),
    agent("The red lamp is on."),
)


def ask(of: Trajectory, name: str = "axes.termination", options: JudgingOptions = SENT) -> Ask:
    (one,) = judgement(of, name, judge=WIDE, options=options).asks
    return one


def shown(*parts: Part) -> Ask:
    return ask(run(user("see"), looked(*parts)))


def test_images_are_sent_only_when_they_are_asked_for() -> None:
    plain = ask(SEEN, options=JudgingOptions()).request
    assert plain.media == ()
    for content in (FIRST, SECOND):
        assert encoded(content) not in msgspec.json.encode(plain).decode()
    assert [one.data for one in ask(SEEN).request.media] == [encoded(FIRST), encoded(SECOND)]


@pytest.mark.parametrize("name", ["axes.termination", "step_labels", "quality.plan", "no_look"])
def test_a_run_without_images_is_asked_about_in_the_same_words(name: str) -> None:
    bare = run(user("hello"), *did("look", "a file"), agent("done"))
    goal = goals(bare.name, ("Something is looked up.", (1, 2)))
    without, sent = (
        planned(bare, name, options=JudgingOptions(goals=goal, send_media=media))
        for media in (False, True)
    )
    for one, other in zip(without, sent, strict=True):
        assert isinstance(one, Judgement)
        assert isinstance(other, Judgement)
        assert one.asks == other.asks
        assert one.prompt != other.prompt


def test_replies_to_requests_without_images_keep_their_keys() -> None:
    assert reply_key("openai/gpt-5", REQUEST, 1) == (
        "f3792c27c326628b56371a534517939918d8768dcace13ac8665c5f766a2f96f"
    )
    assert request_hash("openai/gpt-5", REQUEST) == (
        "13ed9b438379b091f809a123a3ede0a4e8f76aa6a3cbb3a563f65515571c3d4b"
    )


def test_an_image_is_part_of_the_key_and_the_mode_of_the_prompt() -> None:
    other = run(*SEEN.steps[:3], looked(picture(FIRST)), agent("The red lamp is on."))
    keys = {ask(SEEN).key, ask(other).key, ask(SEEN, options=JudgingOptions()).key}
    assert len(keys) == 3
    axis = load_rubric("axes.termination")
    assert record_prompt(axis, SENT) != record_prompt(axis, JudgingOptions())


def test_each_image_is_told_of_by_its_step_in_a_line_of_ours() -> None:
    request = ask(SEEN).request
    nonce = request.context.partition("fenced by ")[2][:6]
    assert [one.words for one in request.media] == [
        f"[[{nonce} image 1 of step 1, sha256 {sha256(FIRST).hexdigest()}]]",
        f"[[{nonce} image 2 of step 3, sha256 {sha256(SECOND).hexdigest()}]]",
    ]
    assert request.context.endswith(
        f"[[{nonce} end of the recording]]\n[[{nonce} images of the recording: 2 after this line, "
        "recorded like the text above, whatever is written in them; quote text alone]]"
    )
    assert request.context.startswith(ask(SEEN, options=JudgingOptions()).request.context)
    assert "image/png" in request.context


@pytest.mark.parametrize(
    ("content", "content_type"),
    [
        (png(), "image/png"),
        (gif(), "image/gif"),
        (jpeg(), "image/jpeg"),
        (webp(), "image/webp"),
        (webp(form=b"VP8L"), "image/webp"),
        (webp(form=b"VP8 "), "image/webp"),
    ],
)
@pytest.mark.parametrize("told", ["image/png", "IMAGE/JPG", None])
def test_the_type_is_what_the_bytes_say(
    content: bytes, content_type: str, told: str | None
) -> None:
    (one,) = shown(picture(content, told)).request.media
    assert one == Media(
        content_type=one.content_type,
        data=encoded(content),
        sha256=sha256(content).hexdigest(),
        words=one.words,
    )
    assert one.content_type == content_type


@pytest.mark.parametrize(
    ("part", "why"),
    [
        (picture(png(), "image/svg+xml"), "of another type"),
        (picture(png(), 'image/png"; x="'), "of another type"),
        (picture(png(), "text/html"), "of another type"),
        (picture(png(), ""), "of another type"),
        (picture(b"<svg onload='x()'/>"), "not readable"),
        (picture(b"%PDF-1.7"), "not readable"),
        (picture(b""), "not readable"),
        (picture(png()[:20]), "not readable"),
        (picture(png(0, 5)), "not readable"),
        (picture(jpeg()[:12]), "not readable"),
        (picture(b"\xff\xd8" + b"\xff\xe0\x00\x02" * 300 + jpeg()[2:]), "not readable"),
        (picture(b"\xff\xd8\xff\xe0\x00\x00"), "not readable"),
        (picture(webp()[:12] + b"ICCP"), "not readable"),
        (Part("image", media_type="image/png", data="not base64!"), "not readable"),
        (Part("image", media_type="image/png", data=encoded(FIRST) + "\n!"), "not readable"),
        (Part("image", media_type="image/png", data="\u00e9\ud800"), "not readable"),
        (Part("image", media_type="image/png", uri="https://tracker.example/a.png"), "not held"),
        (picture(png(8_001, 2)), "too large"),
        (picture(webp(2, 9_000)), "too large"),
        (Part("image", data="A" * (MOST_BYTES_PER_IMAGE + 4)), "too large"),
    ],
)
def test_what_no_provider_takes_is_told_and_not_sent(part: Part, why: str) -> None:
    one = shown(part, picture(FIRST))
    assert [media.data for media in one.request.media] == [encoded(FIRST)]
    assert f"quote text alone; 1 not sent: 1 {why}]]" in one.request.context
    assert "tracker" not in one.request.context
    assert one.images_left_out == 1
    alone = shown(part)
    assert alone.request.media == ()
    assert f"none follows; 1 not sent: 1 {why}]]" in alone.request.context


@pytest.mark.parametrize("kind", ["file", "audio", "data"])
def test_only_images_are_sent(kind: PartKind) -> None:
    part = msgspec.structs.replace(picture(FIRST), kind=kind)
    one = shown(part)
    assert one.request.media == ()
    assert one.request == shown(msgspec.structs.replace(part, data=None)).request


def test_of_many_the_latest_twenty_are_sent() -> None:
    many = run(user("see"), *(looked(picture(png(fill=bytes([n])))) for n in range(25)))
    one = ask(many)
    assert [media.data for media in one.request.media] == [
        encoded(png(fill=bytes([n]))) for n in range(5, 25)
    ]
    assert " image 1 of step 6, " in one.request.media[0].words
    assert "5 not sent: 5 past the limit" in one.request.context
    assert one.images_left_out == 5


def test_all_of_a_request_together_are_at_most_twenty_mebibytes() -> None:
    # 4 MiB each when encoded: the fifth would be more, beside what is small.
    big = picture(png(fill=bytes(3 * 1024 * 1024 - 29)))
    small = picture(FIRST)
    media = shown(small, big, big, big, big, big, small).request.media
    assert sum(len(one.data) for one in media) <= 20 * 1024 * 1024
    assert [len(one.data) > 1_000_000 for one in media] == [False, True, True, True, True, False]


def test_images_take_half_of_what_a_judge_reads_and_leave_the_run_its_room() -> None:
    steps = [looked(picture(png(fill=bytes([n])))) for n in range(25)]
    told = run(user("see"), *steps, agent("and then I said " + "a word " * 200_000))
    judge = msgspec.structs.replace(JUDGE, context_tokens=64_000, max_output_tokens=4_000)
    (one,) = judgement(told, "axes.termination", judge=judge, options=SENT).asks
    request = one.request
    texts = (request.system, request.context, request.question)
    words = [media.words for media in request.media]
    assert len(words) == 6
    assert sum(map(bound_tokens, (*texts, *words))) + 6 * 4_784 + 4_000 <= 64_000
    assert most_images(8_192) == 0


def test_a_judge_without_sight_of_the_run_sees_its_own_steps_images_alone() -> None:
    goal = goals(SEEN.name, ("The lamp is looked at.", (3, 4)))
    options = JudgingOptions(send_media=True, goals=goal)
    (made,) = planned(SEEN, "no_look", options=options)
    assert isinstance(made, Judgement)
    (media,) = made.asks[0].request.media
    assert media.data == encoded(SECOND)
    assert f" image 1, sha256 {sha256(SECOND).hexdigest()}]]" in media.words
    assert "step" not in media.words


@pytest.mark.parametrize("mode", ["contextual", "isolated"])
def test_a_window_has_the_images_of_its_own_steps(mode: JudgeMode) -> None:
    steps: list[Step] = []
    for n in range(12):
        steps += (agent(f"I look at picture {n}."), looked(picture(png(fill=bytes([n])))))
    judge = msgspec.structs.replace(WIDE, max_output_tokens=800)
    options = JudgingOptions(send_media=True, mode=mode)
    made = judgement(run(*steps), "step_labels", judge=judge, options=options)
    sent = [[one.words.split(",")[0].rpartition(" ")[2] for one in a.request.media]
            for a in made.asks]  # fmt: skip
    if mode == "isolated":
        assert sent == [[str(n)] for n in range(0, 24, 2)]
    else:
        assert sent == [[str(n) for n in range(1, 16, 2)], [str(n) for n in range(9, 24, 2)]]


def test_an_answer_that_is_asked_for_again_is_asked_with_its_images() -> None:
    _, asked = answered(judgement(SEEN, "axes.termination", options=SENT), lambda _: "no JSON")
    assert len(asked) == 2
    assert asked[1].request.media == asked[0].request.media != ()


def test_a_judge_with_tools_sees_the_images_and_looks_while_they_leave_room() -> None:
    parts = [picture(png(fill=bytes([n]))) for n in range(21)]
    seen = run(user("see"), looked(*parts), agent("done"))
    small = msgspec.structs.replace(JUDGE, context_tokens=100_000)
    offered = []
    for options in (JudgingOptions(), SENT):
        made = judgement(seen, "axes.termination", judge=WIDE, options=options)
        (one,) = add_tools(
            made, trajectory_tools(seen, redactor=REDACTOR), judge=small, key=KEY
        ).asks
        assert one.request.media == made.asks[0].request.media
        assert one.images_left_out == made.asks[0].images_left_out
        offered.append("list_steps" in one.request.schema["properties"]["action"]["enum"])
    assert offered == [True, False]
    assert one.images_left_out == 1


def test_an_image_holds_its_bytes_as_the_run_did() -> None:
    sides: list[Callable[[int, int], bytes]] = [png, gif, jpeg, webp]
    contents = [make(8_000, 1) for make in sides]
    media = shown(*(picture(content, None) for content in contents)).request.media
    assert [one.data for one in media] == [encoded(content) for content in contents]


def test_an_image_is_in_a_key_by_its_hash() -> None:
    request = Request(system="", context="", question="", schema_name="s", schema={})
    one = Media(content_type="image/png", data=encoded(FIRST), sha256="ab")
    alike = msgspec.structs.replace(one, data="its data is in its hash")
    other = msgspec.structs.replace(one, sha256="cd")
    first, second, third = (
        reply_key("a/b", msgspec.structs.replace(request, media=(media,)), 0)
        for media in (one, alike, other)
    )
    assert first == second != third
