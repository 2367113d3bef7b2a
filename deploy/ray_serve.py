"""strata serve as replicas of Ray Serve: a conversation goes to the replica that has its prompt in its cache, and there are
as many replicas as requests need.

    pip install "ray[serve]==2.60.0"
    STRATA=/usr/local/bin/strata python ray_serve.py
    curl http://127.0.0.1:8000/v1/chat/completions -d '{"messages": [{"role": "user", "content": "Hello"}]}'

STRATA is the program, MODEL what it serves (default: tale). A replica starts the program on a port of the loopback address
of its machine and passes requests on. `python ray_serve.py --check` sees that answers are right, that conversations stay
where they are, and that replicas come with the requests, and ends; `cargo xtask test-fleet --ray` runs it.
"""

import concurrent.futures
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
    autoscaling_config=AutoscalingConfig(
        min_replicas=2, max_replicas=4, target_ongoing_requests=4, upscale_delay_s=5, downscale_delay_s=60
    ),
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
        command = [program, "serve", model, "--host", f"127.0.0.1:{port}", "--keep-alive=-1", "--log-level", "warn"]
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


def ask(body, url="http://127.0.0.1:8000"):
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), headers)
    return urllib.request.urlopen(request, timeout=300).read().decode()


def deltas(stream):
    """The text of a streamed answer."""
    events = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]
    return "".join(choice["delta"].get("content") or "" for event in events for choice in event["choices"])


def check_conversations():
    """Conversations of several turns: streams say what whole answers say, and later turns find their prompts."""
    cached, turns = 0, 0
    for talk in range(4):
        messages = [{"role": "user", "content": f"This is talk {talk}. " + f"Tell me of fox {talk} and its wood. " * 6}]
        for turn in range(3):
            body = {"messages": messages, "max_tokens": 12, "temperature": 0}
            answer = json.loads(ask(body))
            text = answer["choices"][0]["message"]["content"]
            assert deltas(ask({**body, "stream": True})) == text, text
            turns += turn > 0
            cached += turn > 0 and answer["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
            messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "And then?"}]
    print(f"{cached} of {turns} later turns found their prompt computed", flush=True)
    assert cached >= 0.95 * turns


def running():
    deployment = serve.status().applications["default"].deployments["Replica"]
    return deployment.replica_states.get("RUNNING", 0)


def check_autoscaling(seconds=180):
    """More requests than two replicas are for, until there are more replicas; every answer is whole and the same."""
    before, deadline = running(), time.time() + seconds
    body = {"messages": [{"role": "user", "content": "Tell me of a fox."}], "max_tokens": 200, "temperature": 0}
    body["ignore_eos"] = True
    answers = []
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        while running() <= before:
            assert time.time() < deadline, f"{before} replicas stay {before}"
            answers += pool.map(lambda _: deltas(ask({**body, "stream": True})), range(24))
    assert len(set(answers)) == 1 and answers[0], "answers differ"
    print(f"{before} replicas became {running()}; {len(answers)} answers are equal", flush=True)


if __name__ == "__main__":
    serve.run(app)
    if "--check" in sys.argv:
        check_conversations()
        check_autoscaling()
        serve.shutdown()
    else:
        while True:
            time.sleep(60)
