"""Streams a chat from two servers with OpenAI's official client, and compares the pieces.

    pip install openai
    python tools/boot_client.py KEY URL URL [CERTIFICATE]

The first server is `strata serve tale`, the second the unikernel with the same model; both want KEY. An https URL is
believed if its server has the CERTIFICATE, and a client without it must refuse.
"""

import ssl
import sys

import openai


def pieces(key, url, certificate=None):
    trust = ssl.create_default_context(cafile=certificate) if url.startswith("https") else True
    client = openai.OpenAI(
        base_url=url,
        api_key=key,
        timeout=600,
        max_retries=0,
        http_client=openai.DefaultHttpxClient(verify=trust),
    )
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


def refused(key, url, certificate):
    try:
        pieces(key, url, certificate)
    except openai.APIError as error:
        return error
    raise AssertionError(f"{url} was believed with the key {key}")


def main():
    key, first, second = sys.argv[1:4]
    certificate = sys.argv[4] if len(sys.argv) > 4 else None
    expected, got = pieces(key, first), pieces(key, second, certificate)
    text = "".join(content or "" for _, content, _ in expected)
    assert len(text) > 20 and len(expected) > 5, expected
    assert got == expected, f"the first server streamed {expected}, the second {got}"

    if certificate:
        assert isinstance(refused(key, second, None), openai.APIConnectionError)
        wrong = refused("another-key", second, certificate)
        assert isinstance(wrong, openai.AuthenticationError), wrong


main()
