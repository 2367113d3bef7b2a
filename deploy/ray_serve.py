"""strata serve as replicas of Ray Serve: a conversation goes to the replica that has its prompt in its cache, and there are
as many replicas as requests need.

    pip install "ray[serve]==2.60.0"
    STRATA=/usr/local/bin/strata python ray_serve.py
    curl http://127.0.0.1:8000/v1/chat/completions -d '{"messages": [{"role": "user", "content": "Hello"}]}'

STRATA is the program, MODEL what it serves (default: tale). A replica starts the program on a port of the loopback address
of its machine and passes requests on. `python ray_serve.py --check` asks for a few answers and ends.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request

import aiohttp
from ray import serve
from ray.serve.config import AutoscalingConfig, RequestRouterConfig
from starlette.requests import Request
from starlette.responses import StreamingResponse

# What `ray.serve.llm` has under a public name, which needs vLLM's packages to be imported.
ROUTER = "ray.llm._internal.serve.routing_policies.prefix_aware.prefix_aware_router:PrefixCacheAffinityRouter"


class Asked:
    """A request; the router reads `prompt`."""

    def __init__(self, method, target, body, key):
        self.method, self.target, self.body, self.key = method, target, body, key
        self.prompt = beginning(body)


def beginning(body):
    """What requests of one conversation have in common: its text so far."""
    try:
        fields = json.loads(body)
    except ValueError:
        return ""
    if not isinstance(fields, dict):
        return ""
    prompt = fields.get("messages") or fields.get("input") or fields.get("prompt") or ""
    return prompt if isinstance(prompt, str) else json.dumps(prompt)


@serve.deployment(
    request_router_config=RequestRouterConfig(request_router_class=ROUTER),
    autoscaling_config=AutoscalingConfig(min_replicas=2, max_replicas=4, target_ongoing_requests=4),
    ray_actor_options={"num_cpus": 0.1},
    max_ongoing_requests=32,
    health_check_period_s=5,
    # SIGTERM lets running answers end.
    graceful_shutdown_timeout_s=40,
)
class Replica:
    def __init__(self, program, model):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        command = [program, "serve", model, "--host", f"127.0.0.1:{port}", "--keep-alive=-1"]
        self.process = subprocess.Popen(command)
        self.session = None
        while not self.is_ready():
            time.sleep(0.1)

    def is_ready(self):
        if self.process.poll() is not None:
            raise RuntimeError("strata serve ended")
        try:
            return urllib.request.urlopen(self.url + "/ready", timeout=5).status == 200
        except OSError:
            return False

    def check_health(self):
        if not self.is_ready():
            raise RuntimeError("strata serve does not answer")

    async def ask(self, asked):
        """Status and media type of the answer, then its bytes as they come. A client that goes away ends it."""
        self.session = self.session or aiohttp.ClientSession(timeout=aiohttp.ClientTimeout())
        headers = {"content-type": "application/json", **({"authorization": asked.key} if asked.key else {})}
        request = self.session.request(asked.method, self.url + asked.target, data=asked.body, headers=headers)
        async with request as reply:
            yield reply.status, reply.content_type
            async for piece in reply.content.iter_any():
                yield piece

    def __del__(self):
        self.process.terminate()
        self.process.wait(timeout=40)


@serve.deployment(ray_actor_options={"num_cpus": 0.1}, max_ongoing_requests=1000)
class Front:
    def __init__(self, replicas):
        self.replicas = replicas.options(stream=True)

    async def __call__(self, request: Request):
        target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        body, key = await request.body(), request.headers.get("authorization")
        answer = self.replicas.ask.remote(Asked(request.method, target, body, key))
        status, kind = await anext(answer)
        return StreamingResponse(answer, status_code=status, media_type=kind)


app = Front.bind(Replica.bind(os.environ.get("STRATA", "strata"), os.environ.get("MODEL", "tale")))


def check(url="http://127.0.0.1:8000"):
    """Conversations of several turns: answers are equal and streamed ones too, and later turns find their prompts."""

    def ask(body):
        request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"})
        return urllib.request.urlopen(request, timeout=120).read().decode()

    cached, turns = 0, 0
    for talk in range(4):
        messages = [{"role": "user", "content": f"This is talk {talk}. " + f"Tell me of fox {talk} and its wood. " * 6}]
        for turn in range(3):
            body = {"messages": messages, "max_tokens": 12, "temperature": 0}
            answer = json.loads(ask(body))
            text = answer["choices"][0]["message"]["content"]
            lines = [line[6:] for line in ask({**body, "stream": True}).splitlines() if line.startswith("data: {")]
            deltas = [choice["delta"].get("content") or "" for line in lines for choice in json.loads(line)["choices"]]
            assert "".join(deltas) == text, (deltas, text)
            turns += turn > 0
            cached += turn > 0 and answer["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
            messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "And then?"}]
    print(f"{cached} of {turns} later turns found their prompt computed")
    assert cached >= 0.9 * turns


if __name__ == "__main__":
    serve.run(app)
    if "--check" in sys.argv:
        check()
    else:
        while True:
            time.sleep(60)
