"""Streams a chat from two servers with OpenAI's official client, and compares the pieces.

    pip install openai
    python tools/boot_client.py KEY URL URL

The first server is `strata serve tale`, the second the unikernel with the same model; both want KEY.
"""

import sys

import openai


def pieces(key, url):
    client = openai.OpenAI(base_url=url, api_key=key, timeout=600, max_retries=0)
    stream = client.chat.completions.create(
        model="tale",
        messages=[{"role": "user", "content": "Tell me a story about a boat."}],
        max_tokens=24,
        temperature=0,
        stream=True,
    )
    found = []
    for chunk in stream:
        for choice in chunk.choices:
            found.append((choice.delta.role, choice.delta.content, choice.finish_reason))
    return found


def main():
    key, first, second = sys.argv[1:]
    expected, got = pieces(key, first), pieces(key, second)
    text = "".join(content or "" for _, content, _ in expected)
    assert len(text) > 20 and len(expected) > 5, expected
    assert got == expected, f"the first server streamed {expected}, the second {got}"


main()
