"""Three `strata serve` behind routers: smg, which we did not write, and `strata relay`.

    pip install smg pyzmq msgspec kubernetes-validate pyyaml
    python tools/fleet_check.py PROGRAM [--only WORD] [--node FOLDER]

PROGRAM is the `strata` program. With --node, routes are held to the Gateway API's schema, which tools/gateway_check.mjs finds
in that folder. All that is started listens on the loopback address and is stopped at the end. Each check is
a function below; the last line counts them. Figures are printed as they are measured.
"""

import argparse
import concurrent.futures
import http.client
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.request

import jsonschema
import kubernetes_validate
import msgspec
import yaml
import zmq

import strata_server

CHECKS = []
# The name of the model that is served now.
MODEL = {}
# The same for two requests: what is made up for an answer follows from it.
STAMP = {"strata-stamp": "6e789e6aa1b965f4-6b49d200-5"}


def check(function):
    CHECKS.append(function)
    return function


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(condition, what, seconds=60):
    deadline = time.time() + seconds
    while not condition():
        assert time.time() < deadline, f"{what} did not happen in {seconds} s"
        time.sleep(0.05)


def get(url, path):
    try:
        with urllib.request.urlopen(url + path, timeout=30) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def metric(url, name):
    lines = [line for line in get(url, "/metrics")[1].splitlines() if not line.startswith("#")]
    values = [line.rsplit(" ", 1)[1] for line in lines if line.split("{")[0].split(" ")[0] == name]
    return sum(float(value) for value in values)


class Replica(strata_server.StrataServer):
    def __init__(self, fleet, model, arguments=()):
        arguments = [model, "--threads", "1", "--parallel", "8", "--log-level", "error", "--keep-alive=-1", *arguments]
        super().__init__(fleet.program, fleet.folder, arguments)
        request = urllib.request.Request(self.url + "/v1/models", headers={"authorization": "Bearer ada-secret-key"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            # Routers know models by their names.
            MODEL["model"] = json.loads(reply.read())["data"][0]["id"]

    def signal(self, number):
        self.process.send_signal(number)

    def running(self):
        return metric(self.url, "vllm:num_requests_running")

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=60)


class Program:
    """A router, as a process of its own."""

    def __init__(self, command, url):
        self.url = url
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)

    def wait_ready(self, path="/health"):
        def answers():
            assert self.process.poll() is None, self.said()
            return get(self.url, path)[0] == 200

        wait_for(answers, f"{self.url}{path}")
        return self

    def said(self):
        self.log.seek(0)
        return self.log.read()[-4000:]

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


class Fleet:
    """What a check starts, ended with it."""

    def __init__(self, program, smg, node, folder):
        self.program, self.smg, self.node, self.folder = program, smg, node, folder
        self.started = []

    @property
    def model(self):
        """A model whose prompts take their time."""
        path = os.path.join(self.folder, "model.gguf")
        if not os.path.exists(path):
            subprocess.run([self.program, "synth", path, "--shape", "0.5b"], check=True, stdout=subprocess.DEVNULL)
        return path

    def replicas(self, count, model="tale", arguments=()):
        replicas = [Replica(self, model, arguments) for _ in range(count)]
        self.started += replicas
        return replicas

    def relay(self, replicas):
        port = free_port()
        to = [word for replica in replicas for word in ("--to", replica.url)]
        command = [self.program, "relay", *to, "--port", str(port)]
        relay = Program(command, f"http://127.0.0.1:{port}")
        self.started.append(relay)
        return relay.wait_ready("/ready")

    def router(self, replicas, policy):
        port = free_port()
        command = [self.smg, "launch", "--host", "127.0.0.1", "--port", str(port), "--policy", policy]
        command += ["--prometheus-port", str(free_port()), "--prometheus-host", "127.0.0.1", "--log-level", "warn"]
        command += ["--health-check-interval-secs", "1", "--health-failure-threshold", "2"]
        command += ["--worker-startup-check-interval", "1"]
        command += ["--worker-urls", *[replica.url for replica in replicas]]
        router = Program(command, f"http://127.0.0.1:{port}")
        self.started.append(router)
        router.wait_ready()
        wait_for(lambda: len(workers(router)) == len(replicas), "smg knows its workers")
        return router

    def end(self):
        for process in reversed(self.started):
            process.end()


def workers(router):
    status, text = get(router.url, "/workers")
    listed = json.loads(text).get("workers", []) if status == 200 else []
    return [worker["url"] for worker in listed if worker.get("is_healthy", True)]


class Stream:
    """A streamed completion, read event by event."""

    def __init__(self, url, body, headers=()):
        host = url.removeprefix("http://")
        self.connection = http.client.HTTPConnection(host, timeout=300)
        headers = {"content-type": "application/json", **dict(headers)}
        body = json.dumps({**MODEL, "stream": True, **body})
        self.since = time.time()
        path = "/v1/chat/completions" if '"messages"' in body else "/v1/completions"
        self.connection.request("POST", path, body, headers)
        self.reply = self.connection.getresponse()
        self.text, self.pieces, self.done, self.first, self.failed = "", 0, False, None, None
        self.usage = None

    def read(self, pieces=None):
        """Reads so many pieces of text, or all; says whether the answer is whole."""
        while pieces is None or self.pieces < pieces:
            try:
                line = self.reply.readline()
            except (http.client.HTTPException, OSError) as error:
                self.failed = repr(error)
                return False
            if not line:
                return self.done
            if not line.startswith(b"data: "):
                continue
            data = line[6:].strip()
            if data == b"[DONE]":
                self.done = True
                continue
            event = json.loads(data)
            if "error" in event:
                self.failed = event["error"]
                return False
            self.usage = event.get("usage") or self.usage
            for choice in event.get("choices", []):
                piece = choice.get("text") or choice.get("delta", {}).get("content") or ""
                if piece:
                    self.first = self.first or time.time() - self.since
                    self.text += piece
                    self.pieces += 1
        return False


def complete(url, body, headers=()):
    stream = Stream(url, body, headers)
    assert stream.reply.status == 200, stream.reply.read()
    whole = stream.read()
    assert whole, stream.failed
    return stream


def busy(replicas):
    """The replica that works now."""
    found = []

    def look():
        found[:] = [replica for replica in replicas if replica.process.poll() is None and replica.running() > 0]
        return found

    wait_for(look, "a replica works")
    return found[0]


LONG = {"prompt": "Once upon a time", "max_tokens": 120, "temperature": 1, "ignore_eos": True}
CHAT = {
    "messages": [{"role": "user", "content": "Tell me of a fox."}],
    "max_tokens": 200,
    "temperature": 0.8,
    "ignore_eos": True,
}


@check
def relay_resumes_after_sigkill_at_token_20(fleet):
    replicas = fleet.replicas(3, fleet.model, ["--ctx", "2048"])
    relay = fleet.relay(replicas)
    undisturbed = complete(replicas[2].url, LONG, STAMP)
    cut = Stream(relay.url, LONG, STAMP)
    assert not cut.read(20)
    busy(replicas).signal(signal.SIGKILL)
    killed = time.time()
    assert cut.read(), cut.failed
    assert cut.text == undisturbed.text, (cut.text, undisturbed.text)
    assert metric(relay.url, "strata:relay_streams_resumed_total") == 1
    print(f"  the same {len(cut.text.encode())} bytes; whole {time.time() - killed:.1f} s after the kill")
    # The other two go on; what was lost is noticed.
    complete(relay.url, {**LONG, "max_tokens": 4})
    wait_for(lambda: metric(relay.url, "strata:relay_replica_up") == 2, "the relay notices", 20)


@check
def relay_resumes_chats_without_a_seed(fleet):
    """Sampled, no seed, no header from the client: the relay's stamp decides, so only the event of a gap can be seen."""
    replicas = fleet.replicas(3)
    relay = fleet.relay(replicas)
    resumed = 0
    for attempt in range(5):
        stream = Stream(relay.url, CHAT, {"strata-stamp": f"{attempt:016x}-6b49d200-5"})
        stream.read(20)
        replica = busy(replicas)
        replica.signal(signal.SIGKILL)
        assert stream.read(), stream.failed
        resumed = metric(relay.url, "strata:relay_streams_resumed_total")
        if resumed:
            break
        replicas.remove(replica)
        assert len(replicas) > 1, "the model is too fast to be cut"
    rest = [replica for replica in replicas if replica.process.poll() is None]
    again = complete(rest[0].url, CHAT, {"strata-stamp": f"{attempt:016x}-6b49d200-5"})
    assert again.text == stream.text
    print(f"  {resumed:.0f} stream resumed, {len(stream.text)} characters equal")


@check
def relay_drains_and_takes_replicas_back(fleet):
    replicas = fleet.replicas(3)
    relay = fleet.relay(replicas)
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        body = lambda n: {**CHAT, "messages": [{"role": "user", "content": f"Tale {n}"}]}
        jobs = [pool.submit(complete, relay.url, body(n)) for n in range(12)]
        time.sleep(0.3)
        replicas[0].signal(signal.SIGTERM)
        later = [pool.submit(complete, relay.url, body(n)) for n in range(12, 24)]
        texts = [job.result().text for job in jobs + later]
    assert replicas[0].process.wait(timeout=40) == 0
    assert all(texts) and len(texts) == 24
    assert metric(relay.url, "strata:relay_streams_resumed_total") == 0
    print("  24 of 24 answers whole, no stream cut")
    # Another one at the same address joins.
    port = replicas[0].url.rsplit(":", 1)[1]
    command = [fleet.program, "serve", "tale", "--threads", "1", "--port", port, "--log-level", "error"]
    fleet.started.append(Program(command, replicas[0].url).wait_ready())
    wait_for(lambda: metric(relay.url, "strata:relay_replica_up") == 3, "the new replica is taken")
    before = metric(replicas[0].url, "vllm:request_success_total")
    for n in range(6):
        complete(relay.url, {**CHAT, "max_tokens": 4, "messages": [{"role": "user", "content": f"New {n}"}]})
    assert metric(replicas[0].url, "vllm:request_success_total") > before


def converse(url, conversations, turns, words):
    """Conversations that grow: how long each turn after the first waited for its first token, and whether it found the
    prompt of the turn before computed."""
    def talk(number):
        prompt = " ".join(f"c{number}w{n}" for n in range(words))
        waited, found, before = [], [], 0
        for turn in range(turns):
            body = {"prompt": prompt, "max_tokens": 3, "temperature": 0, "ignore_eos": True}
            answer = complete(url, {**body, "stream_options": {"include_usage": True}})
            waited.append(answer.first)
            cached = answer.usage["prompt_tokens_details"]["cached_tokens"]
            found.append(cached >= 0.9 * before)
            before = answer.usage["prompt_tokens"]
            prompt += answer.text + f" and then {turn} of {number}"
        return waited[1:], found[1:]

    talks = [talk(number) for number in range(conversations)]
    return [value for waited, _ in talks for value in waited], [value for _, found in talks for value in found]


def measured(fleet, start, conversations=6, turns=4, words=160):
    replicas = fleet.replicas(3, fleet.model, ["--ctx", "2048"])
    router = start(replicas)
    for replica in replicas:
        complete(replica.url, {"prompt": "warm", "max_tokens": 1})
    urls = [replica.url for replica in replicas]
    total = lambda name: [metric(url, name) for url in urls]
    queries, hits = sum(total("vllm:prefix_cache_queries_total")), sum(total("vllm:prefix_cache_hits_total"))
    asked = total("vllm:request_success_total")
    waited, found = converse(router.url, conversations, turns, words)
    asked = [after - before for after, before in zip(total("vllm:request_success_total"), asked)]
    queries = sum(total("vllm:prefix_cache_queries_total")) - queries
    hits = sum(total("vllm:prefix_cache_hits_total")) - hits
    for process in [router, *replicas]:
        process.end()
    # The first turns know nothing: what later turns could have found is all but what each adds.
    return {"ttft": statistics.median(waited), "hit rate": hits / queries, "spread": asked, "found": found}


def compare(name, affine, round_robin):
    gain = round_robin["ttft"] / affine["ttft"]
    at_home = lambda measured: sum(measured["found"]) / len(measured["found"])
    print(f"  {name}: TTFT of turns 2… {affine['ttft'] * 1e3:.0f} ms, round robin {round_robin['ttft'] * 1e3:.0f} ms: {gain:.1f}×")
    print(f"  {name}: hit rate {affine['hit rate']:.1%} against {round_robin['hit rate']:.1%}")
    print(f"  {name}: turns that found their prompt {at_home(affine):.0%} against {at_home(round_robin):.0%}")
    print(f"  {name}: requests by replica {affine['spread']}")
    assert gain >= 5, gain
    assert at_home(affine) >= 0.95, affine["found"]
    assert min(affine["spread"]) > 0, affine["spread"]


@check
def prefixes_stay_at_home(fleet):
    round_robin = measured(fleet, lambda replicas: fleet.router(replicas, "round_robin"))
    compare("strata relay", measured(fleet, fleet.relay), round_robin)
    compare("smg", measured(fleet, lambda replicas: fleet.router(replicas, "cache_aware")), round_robin)


@check
def smg_spreads_survives_a_kill_drains_and_takes_a_new_one(fleet):
    replicas = fleet.replicas(3)
    router = fleet.router(replicas, "cache_aware")
    body = lambda n: {**CHAT, "messages": [{"role": "user", "content": f"{n} of the many tales of {n * 7919}"}]}
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda n: complete(router.url, {**body(n), "max_tokens": 20}), range(24)))
    spread = [metric(replica.url, "vllm:request_success_total") for replica in replicas]
    assert len(answers) == 24 and min(spread) > 0, spread
    print(f"  spread {spread}")
    # SIGKILL mid-stream: that one is lost, those that follow are not.
    stream = Stream(router.url, body(100))
    stream.read(5)
    killed = busy(replicas)
    killed.signal(signal.SIGKILL)
    whole = stream.read()
    print(f"  killed mid-stream: whole={whole} {str(stream.failed)[:80]}")
    replicas.remove(killed)
    wait_for(lambda: len(workers(router)) == 2, "smg notices", 30)
    for n in range(15):
        complete(router.url, {**body(n), "max_tokens": 4})
    # SIGTERM while streams run: all of them end.
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(complete, router.url, body(200 + n)) for n in range(8)]
        time.sleep(0.3)
        replicas[0].signal(signal.SIGTERM)
        assert all(job.result().text for job in jobs)
    assert replicas[0].process.wait(timeout=40) == 0
    print("  drain: 8 of 8 streams whole")
    # A replica joins.
    [new] = fleet.replicas(1)
    request = urllib.request.Request(router.url + "/workers", json.dumps({"url": new.url}).encode(), {"content-type": "application/json"})
    urllib.request.urlopen(request, timeout=30).read()
    wait_for(lambda: new.url in workers(router), "smg takes the new replica", 30)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: complete(router.url, {**body(300 + n), "max_tokens": 10}), range(16)))
    assert metric(new.url, "vllm:request_success_total") > 0


# vLLM's definitions, as pickers have them.
class BlockStored(msgspec.Struct, array_like=True, tag=True):
    block_hashes: list[int]
    parent_block_hash: int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None = None
    lora_name: str | None = None
    extra_keys: list[list[str] | None] | None = None


class BlockRemoved(msgspec.Struct, array_like=True, tag=True):
    block_hashes: list[int]
    medium: str | None = None


class AllBlocksCleared(msgspec.Struct, array_like=True, tag=True):
    pass


class Batch(msgspec.Struct, array_like=True):
    ts: float
    events: list[BlockStored | BlockRemoved | AllBlocksCleared]
    data_parallel_rank: int | None = None


def post(url, path, body, key=None):
    headers = {"content-type": "application/json", **({"authorization": f"Bearer {key}"} if key else {})}
    request = urllib.request.Request(url + path, json.dumps(body).encode(), headers)
    return json.loads(urllib.request.urlopen(request, timeout=60).read())


class Subscriber:
    def __init__(self, topic=b"kv@"):
        self.socket = zmq.Context.instance().socket(zmq.SUB)
        self.socket.setsockopt(zmq.SUBSCRIBE, topic)
        self.socket.setsockopt(zmq.RCVTIMEO, 20000)
        self.next = None

    def batch(self):
        topic, number, body = self.socket.recv_multipart()
        number = int.from_bytes(number, "big")
        assert self.next in (None, number), (self.next, number)
        self.next = number + 1
        return topic.decode(), msgspec.msgpack.decode(body, type=Batch)

    def until(self, wanted):
        """What is stored, once `wanted` says so."""
        blocks = {}
        while True:
            topic, batch = self.batch()
            assert abs(batch.ts - time.time()) < 60 and batch.data_parallel_rank == 0
            for event in batch.events:
                if isinstance(event, AllBlocksCleared):
                    blocks.clear()
                elif isinstance(event, BlockRemoved):
                    for block in event.block_hashes:
                        del blocks[block]
                else:
                    assert len(event.token_ids) == event.block_size
                    assert event.parent_block_hash is None or event.parent_block_hash in blocks
                    blocks[event.block_hashes[0]] = event
            if wanted(blocks):
                return topic, blocks


@check
def pickers_read_versions_tokens_and_cache_events(fleet):
    port = free_port()
    folder = pathlib.Path(fleet.folder)
    (folder / "keys.txt").write_text("ada ada-secret-key\nbob bob-secret-key\n")
    arguments = ["--kv-events", f"tcp://127.0.0.1:{port}", "--kv-events-name", "pod-1", "--keys", str(folder / "keys.txt")]
    [replica] = fleet.replicas(1, "tale", arguments)
    subscriber = Subscriber()
    subscriber.socket.connect(f"tcp://127.0.0.1:{port}")
    time.sleep(0.5)
    prompt = "Once upon a time there was a fox who lived in a wood. " * 12
    ada, bob = "ada-secret-key", "bob-secret-key"
    [rendered] = post(replica.url, "/v1/completions/render", {"model": "tale", "prompt": [prompt]}, ada)
    tokens = rendered["token_ids"]
    assert rendered["count"] == len(tokens) > 128
    body = {"model": "tale", "prompt": prompt, "max_tokens": 1}
    post(replica.url, "/v1/completions", body, ada)
    whole = len(tokens) // 32
    topic, blocks = subscriber.until(lambda blocks: len(blocks) >= whole)
    assert topic == "kv@pod-1@tale", topic
    chain = sorted(blocks.values(), key=lambda block: tokens.index(block.token_ids[0]) if block.parent_block_hash is None else 1 << 30)
    first = chain[0]
    assert first.parent_block_hash is None and first.extra_keys[0][0]
    said = list(first.token_ids)
    at = first.block_hashes[0]
    while len(said) < whole * 32:
        [after] = [block for block in blocks.values() if block.parent_block_hash == at]
        assert after.extra_keys == [None]
        said += after.token_ids
        at = after.block_hashes[0]
    assert said == tokens[: whole * 32]
    post(replica.url, "/v1/completions", body, bob)
    _, more = subscriber.until(lambda blocks: len(blocks) >= whole)
    [other] = [block for block in more.values() if block.parent_block_hash is None]
    assert other.token_ids == first.token_ids and other.extra_keys != first.extra_keys, "each client has its own"
    request = urllib.request.Request(replica.url + "/version", headers={"authorization": f"Bearer {ada}"})
    assert "version" in json.loads(urllib.request.urlopen(request, timeout=5).read())
    # The other way round: a subscriber that listens, on a server without keys.
    bound = Subscriber()
    port = bound.socket.bind_to_random_port("tcp://127.0.0.1")
    [replica] = fleet.replicas(1, "tale", ["--kv-events-to", f"tcp://127.0.0.1:{port}"])
    # A socket that is bound subscribes when it is looked at.
    for _ in range(10):
        assert bound.socket.poll(200) == 0
    post(replica.url, "/v1/completions", body)
    topic, blocks = bound.until(lambda blocks: len(blocks) >= whole)
    assert topic == f"kv@{replica.url.removeprefix('http://')}@tale", topic
    assert all(block.extra_keys == [None] for block in blocks.values())
    print(f"  {whole} blocks of 32 tokens, told by sequence number, salted for each client")


# As the API reference of the Gateway API Inference Extension has it; no package carries the definition. A picker is a
# service here, which needs a port.
PORT = {
    "type": "object",
    "required": ["number"],
    "additionalProperties": False,
    "properties": {"number": {"type": "integer", "minimum": 1, "maximum": 65535}},
}
NAME = {"type": "string", "minLength": 1, "maxLength": 253}
INFERENCE_POOL = {
    "type": "object",
    "required": ["selector", "targetPorts", "endpointPickerRef"],
    "additionalProperties": False,
    "properties": {
        "selector": {
            "type": "object",
            "required": ["matchLabels"],
            "additionalProperties": False,
            "properties": {
                "matchLabels": {
                    "type": "object",
                    "minProperties": 1,
                    "additionalProperties": {"type": "string", "maxLength": 63},
                }
            },
        },
        "targetPorts": {"type": "array", "minItems": 1, "maxItems": 8, "uniqueItems": True, "items": PORT},
        "appProtocol": {"enum": ["http", "kubernetes.io/h2c"]},
        "endpointPickerRef": {
            "type": "object",
            "required": ["name", "port"],
            "additionalProperties": False,
            "properties": {
                "name": NAME,
                "group": {"const": ""},
                "kind": {"const": "Service"},
                "port": PORT,
                "failureMode": {"enum": ["FailOpen", "FailClose"]},
            },
        },
    },
}


def hold_routes_to_schema(fleet, documents):
    """What a route says, and that the pools it sends to are there."""
    routes = [document for document in documents if document["kind"] == "HTTPRoute"]
    there = {(document["apiVersion"].split("/")[0], document["kind"], document["metadata"]["name"]) for document in documents}
    for route in routes:
        backends = [backend for rule in route["spec"]["rules"] for backend in rule["backendRefs"]]
        assert backends and all((ref["group"], ref["kind"], ref["name"]) in there for ref in backends), backends
    if not fleet.node:
        print("  routes are not held to a schema, without --node")
        return
    script = pathlib.Path(__file__).parent / "gateway_check.mjs"
    command = ["node", script, fleet.node]
    subprocess.run(command, input=json.dumps(routes), text=True, check=True, timeout=60)


@check
def manifests_match_the_schemas_of_kubernetes(fleet):
    documents = []
    for name in ("kubernetes.yaml", "kubernetes-fleet.yaml"):
        path = pathlib.Path(__file__).parent.parent / "deploy" / name
        for document in yaml.safe_load_all(path.read_text()):
            documents.append(document)
            if document["kind"] == "InferencePool":
                assert document["apiVersion"] == "inference.networking.k8s.io/v1"
                jsonschema.validate(document["spec"], INFERENCE_POOL)
            elif document["kind"] != "HTTPRoute":
                kubernetes_validate.validate(document, "1.36", strict=True)
            if document["kind"] == "Deployment":
                args = document["spec"]["template"]["spec"]["containers"][0]["args"]
                help = subprocess.run([fleet.program, "serve", "--help"], capture_output=True, text=True).stdout
                assert all(word in help for word in args if word.startswith("--")), args
    hold_routes_to_schema(fleet, documents)
    kinds = [document["kind"] for document in documents]
    assert kinds.count("Deployment") == 2 and "HorizontalPodAutoscaler" in kinds
    print(f"  {', '.join(kinds)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--only", default="")
    parser.add_argument("--node", help="the folder that the Gateway API's schemas are installed in")
    arguments = parser.parse_args()
    smg = str(pathlib.Path(sys.executable).parent / "smg")
    failed = 0
    checks = [function for function in CHECKS if arguments.only in function.__name__]
    with tempfile.TemporaryDirectory() as folder:
        for function in checks:
            print(function.__name__, flush=True)
            fleet = Fleet(arguments.program, smg, arguments.node, folder)
            since = time.time()
            try:
                function(fleet)
                print(f"  {time.time() - since:.0f} s", flush=True)
            except Exception:
                failed += 1
                traceback.print_exc()
                for process in fleet.started:
                    if isinstance(process, Program):
                        print(process.said(), file=sys.stderr)
            finally:
                fleet.end()
    print(f"{len(checks) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
