"""Writes a random language model that talks: one layer of a Llama, as GGUF.

What it says means nothing, but every part of a real server works on it: tokens, grammar, sampling,
caching, usage. Runs in the environment of the server, where `gguf` and numpy are. Three things that
it must have, each for a reason:

- a byte vocabulary of GPT-2's kind, since the grammar of answers is walked byte by byte;
- weights that make tokens beyond printable ASCII all but impossible, since stray bytes are no
  UTF-8 and the server refuses to parse what it has just said;
- a readiness to close strings and to end, since answers are cut off otherwise, and to write small
  numbers, since the grammar of a number knows no bound and 1E138024111 fits it.
"""

from __future__ import annotations

import sys

import gguf  # type: ignore[import-not-found]
import numpy as np
import numpy.typing as npt

SEED = 7
# Widths: of a token's embedding, of the feed-forward part; heads; layers; context in tokens.
WIDTH, INNER, HEADS, LAYERS, CONTEXT = 32, 64, 2, 1, 131_072
# The first dimension of every embedding is this, in every layer, so that the first column of the
# output weights acts as a bias of each token.
CONSTANT = 4.0
UNLIKELY, BLANK, QUOTE, END, ZERO, DIGIT = -6.0, -1.0, 0.6, 0.5, 0.5, -1.5
MERGES = ("t h", "i n")
BEGIN_TOKEN, END_TOKEN = "<|bos|>", "<|eos|>"
TEMPLATE = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant] "


def byte_letters() -> list[str]:
    """Return the letter by which a GPT-2 vocabulary writes each of the 256 bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {byte: chr(byte) for byte in printable}
    letters |= {byte: chr(256 + at) for at, byte in enumerate(others)}
    return [letters[byte] for byte in range(256)]


def vocabulary() -> tuple[list[str], list[int]]:
    """Return the tokens and the kind of each."""
    plain = byte_letters() + [merge.replace(" ", "") for merge in MERGES]
    control = [BEGIN_TOKEN, END_TOKEN]
    kinds = [int(gguf.TokenType.NORMAL)] * len(plain) + [int(gguf.TokenType.CONTROL)] * len(control)
    return plain + control, kinds


def bias(token: str) -> float:
    """Return how likely a token is by itself."""
    blank = byte_letters()[ord(" ")]
    likely = {blank: BLANK, '"': QUOTE, "]": QUOTE, END_TOKEN: END, "0": ZERO}
    likely |= dict.fromkeys("123456789", DIGIT) | dict.fromkeys("eE-.", UNLIKELY)
    if token in likely:
        return likely[token]
    printable = len(token) == 1 and 33 <= ord(token) < 127
    return 0.0 if printable or token in {"th", "in"} else UNLIKELY


def weights(tokens: list[str]) -> dict[str, npt.NDArray[np.float32]]:
    """Return every tensor, drawn from one seed."""
    rng = np.random.default_rng(SEED)

    def drawn(*shape: int, scale: float) -> npt.NDArray[np.float32]:
        return (rng.standard_normal(shape) * scale).astype(np.float32)

    embedding = drawn(len(tokens), WIDTH, scale=1.0)
    embedding[:, 0] = CONSTANT
    output = drawn(len(tokens), WIDTH, scale=0.1)
    output[:, 0] = [bias(token) for token in tokens]
    found = {
        "token_embd.weight": embedding,
        "output_norm.weight": np.ones(WIDTH, np.float32),
        "output.weight": output,
    }
    for layer in range(LAYERS):
        shapes = {
            **dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), (WIDTH, WIDTH)),
            **dict.fromkeys(("ffn_gate", "ffn_up"), (INNER, WIDTH)),
            "ffn_down": (WIDTH, INNER),
        }
        for name, shape in shapes.items():
            held = drawn(*shape, scale=0.05)
            if name in {"attn_output", "ffn_down"}:
                held[0, :] = 0.0  # what is added to the constant dimension
            found[f"blk.{layer}.{name}.weight"] = held
        for name in ("attn_norm", "ffn_norm"):
            found[f"blk.{layer}.{name}.weight"] = np.ones(WIDTH, np.float32)
    return found


def write(path: str) -> None:
    """Write the model."""
    tokens, kinds = vocabulary()
    out = gguf.GGUFWriter(path, "llama")
    out.add_name("tiny")
    out.add_file_type(0)
    out.add_context_length(CONTEXT)
    out.add_embedding_length(WIDTH)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(INNER)
    out.add_head_count(HEADS)
    out.add_head_count_kv(HEADS)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_rope_dimension_count(WIDTH // HEADS)
    out.add_vocab_size(len(tokens))
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    out.add_token_list([token.encode() for token in tokens])
    out.add_token_types(kinds)
    out.add_token_merges(list(MERGES))
    out.add_bos_token_id(tokens.index(BEGIN_TOKEN))
    out.add_eos_token_id(tokens.index(END_TOKEN))
    out.add_eot_token_id(tokens.index(END_TOKEN))
    out.add_add_bos_token(True)
    out.add_chat_template(TEMPLATE)
    for name, held in weights(tokens).items():
        out.add_tensor(name, held)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


if __name__ == "__main__":
    write(sys.argv[1])
