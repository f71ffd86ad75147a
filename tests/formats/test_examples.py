"""One plain example of each small rule by which formats are read."""

from __future__ import annotations

from stepscope.formats.chat.messages import detect_dialect, has_conversation, message_calls
from stepscope.formats.fields import (
    anthropic_usage,
    infer_text_status,
    parse_time,
    uncounted_usage,
    url_part,
)
from stepscope.formats.files import parquet_footer
from stepscope.formats.finish import Opinion, read_outcome
from stepscope.formats.format import describe_refusal
from stepscope.formats.google_adk.events import to_snake_keys
from stepscope.formats.inspect.events import ModelUsage, read_model_usage
from stepscope.formats.inspect.messages import _grown
from stepscope.formats.mlflow_files import to_otel_id
from stepscope.formats.opening import NO_TRACE, Opening, close_brackets, describe_head, read_opening
from stepscope.formats.otlp.protobuf import encode_varint
from stepscope.formats.otlp.values import any_value_json, make_id
from stepscope.formats.otlp.write import classify_error
from stepscope.formats.reading import Account
from stepscope.formats.scores.rows import column_name, find_delimiter
from stepscope.formats.spans.attributes import (
    decode_any_value,
    decode_object,
    decode_value,
    normalise_usage,
    parse_python_object,
    to_camel_case,
    unflatten,
    unflatten_list,
    unwrap_arguments,
)
from stepscope.formats.spans.dialects.langsmith import find_agent, unwrap_single
from stepscope.formats.spans.lists import parse_nanoseconds
from stepscope.formats.spans.messages import (
    find_constructor,
    read_invalid_calls,
    read_langchain_usage,
    read_media_block,
    unwrap_message,
)
from stepscope.model import Instant, Json, Usage
from stepscope.safety.limits import Limits


def test_calls_are_read_out_of_plain_messages() -> None:
    messages: list[dict[str, Json]] = [{"tool_calls": [{"function": {"name": "f"}}]}, {"role": "u"}]
    assert message_calls(messages)[0].name == "f"


def test_calls_with_results_alone_are_no_conversation() -> None:
    assert not has_conversation(
        [{"role": "assistant", "content": None}, {"role": "tool", "content": "3"}]
    )


def test_a_dialect_is_known_by_what_only_one_api_says() -> None:
    assert detect_dialect([{"role": "user", "content": "hi"}]) == "either"
    assert detect_dialect([{"role": "tool", "content": "done", "tool_call_id": "1"}]) == "openai"


def test_a_data_url_is_taken_apart() -> None:
    assert url_part("image", "data:image/png;base64,aGk=").size == 2


def test_times_are_iso_texts_or_numbers_and_nothing_else() -> None:
    text = "2025-12-24T10:00:00.5Z"
    assert parse_time(text) == Instant(1766570400500000000, text)
    assert parse_time(1766570400) == Instant(1766570400000000000, "1766570400")
    assert parse_time("soon") is None


def test_what_a_usage_says_beyond_its_counts_is_kept() -> None:
    assert uncounted_usage({"prompt_tokens": 3, "prompt_tokens_details": {"audio_tokens": 1}}) == {
        "prompt_tokens_details": {"audio_tokens": 1}
    }


def test_a_read_cache_is_added_to_anthropics_input() -> None:
    told = {"input_tokens": 3, "cache_read_input_tokens": 40}
    assert anthropic_usage(told) == Usage(input_total=43, cache_read=40)


def test_only_a_texts_own_verdict_is_a_status() -> None:
    assert infer_text_status("Error: no such user").status == "error"
    assert infer_text_status("Errors are rare").status == "unknown"
    assert infer_text_status('{"error": null, "rows": []}').status == "ok"


def test_a_footer_stands_before_its_length() -> None:
    assert parquet_footer(b"PAR1" + b"rows" + b"foot" + bytes([4, 0, 0, 0]) + b"PAR1") == b"foot"


def test_a_person_outranks_code() -> None:
    assert (
        read_outcome([Opinion("success", True, "code"), Opinion("success", "no", "person")]).status
        == "fail"
    )


def test_a_refusal_says_where_what_was_found_and_expected() -> None:
    assert (
        describe_refusal("Expected `object | null`, got `array` - at `$.tags`")
        == "`$.tags` is an array, expected an object"
    )


def test_keys_become_snake_case_and_nulls_go() -> None:
    assert to_snake_keys({"invocationId": "e", "author": None}) == {"invocation_id": "e"}


def test_a_cache_is_counted_once_whether_or_not_the_input_has_it() -> None:
    assert read_model_usage(ModelUsage(3, 1, 44, input_tokens_cache_read=40)).input_total == 43
    assert read_model_usage(ModelUsage(43, 1, 44, input_tokens_cache_read=40)).input_total == 43


def test_what_ranges_grew_by_is_told() -> None:
    assert _grown([(0, 3), (5, 9)], [(0, 3), (5, 7)]) == [(7, 9)]


def test_ids_of_mlflow_become_hex() -> None:
    assert to_otel_id("EkIz6dXEn2k=") == "124233e9d5c49f69"
    assert to_otel_id("0x124233e9d5c49f69") == "124233e9d5c49f69"
    assert to_otel_id("tr-1") == "1"


def test_a_cut_head_is_read_up_to_its_last_whole_value() -> None:
    assert read_opening(b'[{"role": "user", "content": "he') == Opening(
        shape="array", records=({"role": "user"},)
    )
    assert read_opening(b'{"a": 1}\n{"b": 2}\n').shape == "lines"


def test_cut_json_is_closed_behind_its_last_value() -> None:
    assert close_brackets(b'{"a": [1, 2], "b": {"c": "x') == b'{"a": [1, 2], "b": {}}'


def test_a_head_is_described_in_few_words() -> None:
    assert describe_head(b'{"spam": 1, "eggs": 2}') == "a JSON object with keys spam, eggs"
    assert describe_head(b"\x00\x01\x02") == "binary data"


def test_a_varint_has_seven_bits_a_byte() -> None:
    assert encode_varint(300).hex() == "ac02"


def test_values_are_written_as_any_values() -> None:
    assert any_value_json([1, "a", None]) == {
        "arrayValue": {"values": [{"intValue": "1"}, {"stringValue": "a"}, {}]}
    }


def test_an_id_in_hex_stays_and_any_other_is_hashed() -> None:
    assert make_id("00f067aa0ba902b7", 16) == "00f067aa0ba902b7"
    assert make_id("span-1", 16) == "9ada893a7bf38e94"


def test_an_error_that_is_a_name_is_its_own_kind() -> None:
    assert classify_error("RateLimitError") == "RateLimitError"
    assert classify_error("the server said no") == "_OTHER"


def test_the_rest_of_a_cut_file_is_one_record_unread() -> None:
    assert Account(uri="a.eval", format="inspect_ai", quarantined=1, problem="damaged").unread == 2
    assert Account(uri="README.md", problem="no known trace").unread == 0


def test_a_file_that_is_no_trace_says_what_it_is() -> None:
    assert Account(uri="NOTES.md", problem=NO_TRACE + "text beginning '# Notes'").skipped == "text"


def test_an_account_is_one_line() -> None:
    why = {"`$.steps` is text, expected an array": 2}
    said = Account(uri="a.json", format="atif", runs=1, quarantined=2, set_aside=why).line()
    assert said.startswith("a.json: atif, 1 run, 0 steps, 0 calls; set aside 2: ")
    assert said.endswith("`$.steps` is text, expected an array")
    assert (
        Account(uri="b.json", format="mlflow").line()
        == "b.json: mlflow, 0 runs, 0 steps, 0 calls; nothing in it is a run"
    )


def test_columns_are_named_as_we_call_them() -> None:
    assert column_name(" Run") == "run"
    assert column_name("latency_s") == "latency"
    assert column_name("Note") == "Note"


def test_a_header_tells_its_delimiter() -> None:
    assert find_delimiter("run;step;score") == ";"
    assert find_delimiter("a,b,c") is None


def test_text_that_holds_an_object_is_taken_apart() -> None:
    assert decode_object('{"a": 1}', Limits()) == {"a": 1}
    assert decode_object("{no", Limits()) == "{no"


def test_text_that_holds_any_json_is_taken_apart() -> None:
    assert decode_value('"a"', Limits()) == "a"
    assert decode_value("a", Limits()) == "a"


def test_an_input_below_its_cache_does_not_include_it() -> None:
    assert normalise_usage(4, 767, read=29447, written=2861) == Usage(
        input_total=32312, cache_read=29447, cache_write=2861, output_total=767
    )


def test_indexed_keys_are_a_list() -> None:
    assert unflatten_list({"m.1.role": "user", "m.0.tools.0": "x", "n": 1}, "m.") == [
        {"tools": ["x"]},
        {"role": "user"},
    ]


def test_dotted_keys_are_nested_values() -> None:
    assert unflatten({"t.id": 17, "t.tags.0": "a", "n": 1}, "t.") == {"id": 17, "tags": ["a"]}


def test_an_object_printed_by_python_is_read() -> None:
    assert parse_python_object("{'query': 'x', 'n': None}") == {"query": "x", "n": None}
    assert parse_python_object("{query}") is None


def test_arguments_come_out_of_what_decorators_wrap_them_in() -> None:
    assert unwrap_arguments('{"args": [], "kwargs": {"city": "Oslo"}}', Limits()) == {
        "city": "Oslo"
    }


def test_an_any_value_is_what_it_holds() -> None:
    assert decode_any_value(
        {"arrayValue": {"values": [{"intValue": "12"}, {"stringValue": "a"}]}}
    ) == [12, "a"]


def test_snake_case_becomes_camel_case() -> None:
    assert to_camel_case("start_time_unix_nano") == "startTimeUnixNano"


def test_the_only_thing_in_an_object_is_meant() -> None:
    assert unwrap_single({"output": "done"}) == "done"
    assert unwrap_single({"a": 1}) == {"a": 1}


def test_a_node_that_hosts_a_ready_made_agent_names_it() -> None:
    assert (
        find_agent(
            {
                "langsmith.metadata.langgraph_node": "agent",
                "langsmith.metadata.langgraph_checkpoint_ns": "hotel:1|agent:2",
            }
        )
        == "hotel"
    )


def test_nanoseconds_are_read_from_pairs_and_digits() -> None:
    assert parse_nanoseconds([1770131992, 242000000]) == 1770131992242000000
    assert parse_nanoseconds("1770131992242000000") == 1770131992242000000


def test_a_constructor_tells_the_type_of_its_message() -> None:
    assert (
        find_constructor({"lc": 1, "id": ["langchain_core", "messages", "AIMessageChunk"]}) == "ai"
    )


def test_a_message_stands_under_its_data() -> None:
    assert unwrap_message({"type": "ai", "data": {"content": "hi"}}) == {
        "type": "ai",
        "content": "hi",
    }


def test_a_call_that_could_not_be_taken_apart_keeps_its_text() -> None:
    assert (
        read_invalid_calls({"invalid_tool_calls": [{"name": "rm", "args": "{", "id": "c"}]})[0].raw
        == "{"
    )


def test_a_block_of_base64_is_a_medium() -> None:
    part = read_media_block({"type": "image", "base64": "aGk=", "mime_type": "image/png"})
    assert part is not None
    assert (part.kind, part.media_type, part.size) == ("image", "image/png", 2)


def test_langchains_details_are_counted() -> None:
    told = {"input_tokens": 9, "input_token_details": {"cache_read": 4}}
    assert read_langchain_usage(told) == Usage(input_total=9, cache_read=4)
