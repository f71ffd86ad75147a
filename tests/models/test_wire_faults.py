"""What a server may put on the wire in place of HTTP: each is a typed failure of one call."""

from __future__ import annotations

import asyncio

import pytest

from stepscope.errors import ModelError
from stepscope.model import Endpoint
from stepscope.models import open_anthropic, open_openai
from stepscope.models.opening import close_models
from tests.models.scripted import REQUEST, Protocol

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
WIRE = {
    "no status line": b"hello\r\n\r\n",
    "a status of no number": b"HTTP/1.1 abc OK\r\n\r\n",
    "a status of four digits": b"HTTP/1.1 2000 OK\r\ncontent-length: 2\r\n\r\n{}",
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
    "binary": bytes(range(256)) * 4,
    "a header without a name": b"HTTP/1.1 200 OK\r\n: x\r\n\r\n",
    "a header of a megabyte": OK + b"x-a: " + b"a" * 1_000_000 + b"\r\n\r\n{}",
    "a thousand headers": OK + b"".join(b"x-%d: y\r\n" % at for at in range(1000)) + b"\r\n{}",
    "a length that is no number": OK + b"content-length: ten\r\n\r\n{}",
    "a length below 0": OK + b"content-length: -5\r\n\r\n{}",
    "two lengths": OK + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}",
    "a length of 10^30": OK + b"content-length: " + b"9" * 30 + b"\r\n\r\n{}",
    "less than its length": OK + b"content-length: 100\r\n\r\n{}",
    "a chunk that is no number": OK + b"transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "a chunk cut short": OK + b"transfer-encoding: chunked\r\n\r\n50\r\n{}",
    "both a length and chunks": OK
    + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "a coding nobody knows": OK + b"transfer-encoding: zip\r\n\r\n{}",
    "early hints for ever": b"HTTP/1.1 103 Early Hints\r\n\r\n" * 50,
    "nothing": b"",
}


async def ask(wire: bytes, protocol: Protocol) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(wire)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        opens = open_openai if protocol == "openai" else open_anthropic
        model = opens(Endpoint(name="local/tiny", base_url=f"http://127.0.0.1:{port}/v1"))
        async with close_models([model]):
            await asyncio.wait_for(model.complete(REQUEST), 20)


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
@pytest.mark.parametrize("wire", WIRE.values(), ids=list(WIRE))
def test_what_is_no_http_is_a_failure_of_this_call(wire: bytes, protocol: Protocol) -> None:
    with pytest.raises(ModelError) as failed:
        asyncio.run(ask(wire, protocol))
    assert "local/tiny" in str(failed.value)
