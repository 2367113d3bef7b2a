"""Expected outputs of chat templates, made by Python's jinja2 set up as Hugging Face `transformers` does.

    python tools/template_oracle.py cases CASES.json EXPECTED.json
    python tools/template_oracle.py fixtures DIR_OF_TEMPLATES OUT.json [CONVERSATIONS.json]

`cases` renders the committed cases: CASES.json is a list of `[template, context]` (the context may be left out), and
EXPECTED.json gets one entry for each. `fixtures` renders every `*.jinja` of a directory with every conversation and
writes `{template: {conversation: entry}}`. An entry is `{"text": …}`, or `{"error": kind, "message": …}` where kind is
`raised` (raise_exception), `undefined`, `security`, `syntax` or `type` (any other Python exception).

Needs jinja2 3.1.6 or later. The clock stands still at NOW, so that the outputs do.
"""

import datetime
import json
import pathlib
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2025, 3, 7, 9, 5, 2, 123456)
HERE = pathlib.Path(__file__).resolve().parent
CONVERSATIONS = HERE.parent / "crates/template/tests/cases/conversations.json"


class RaisedByTemplate(jinja2.exceptions.TemplateError):
    """What `raise_exception` raises."""


class Generation(jinja2.ext.Extension):
    """`{% generation %}`: a call block that returns what its body writes."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_run"), [], [], body).set_lineno(line)

    def _run(self, caller):
        return caller()


class TemplateDict:
    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)


class TemplateNamespace(jinja2.utils.Namespace):
    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attributes = dict(*args, **kwargs)
        for name in attributes:
            TemplateNamespace._check(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name, value):
        TemplateNamespace._check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def _check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"underscore-prefixed attribute {name!r}")


def environment():
    def raise_exception(message):
        raise RaisedByTemplate(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(
            x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    env.globals["dict"] = TemplateDict()
    env.globals["namespace"] = TemplateNamespace
    return env


def render(env, source, context):
    try:
        text = env.from_string(source).render(**context)
        text.encode()
        return {"text": text}
    except RaisedByTemplate as error:
        return {"error": "raised", "message": str(error)}
    except jinja2.exceptions.UndefinedError as error:
        return {"error": "undefined", "message": str(error)}
    except jinja2.exceptions.SecurityError as error:
        return {"error": "security", "message": str(error)}
    except (jinja2.exceptions.TemplateSyntaxError, SyntaxError) as error:
        return {"error": "syntax", "message": str(error)}
    except Exception as error:
        return {"error": "type", "message": f"{type(error).__name__}: {error}"}


def write(path, value):
    text = json.dumps(value, ensure_ascii=False, indent=0)
    pathlib.Path(path).write_text(text + "\n", encoding="utf-8")


def main():
    env = environment()
    if len(sys.argv) >= 4 and sys.argv[1] == "cases":
        cases = json.loads(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8"))
        expected = [render(env, case[0], case[1] if len(case) > 1 else {}) for case in cases]
        write(sys.argv[3], expected)
    elif len(sys.argv) >= 4 and sys.argv[1] == "fixtures":
        source = pathlib.Path(sys.argv[4]) if len(sys.argv) > 4 else CONVERSATIONS
        conversations = json.loads(source.read_text(encoding="utf-8"))
        expected = {}
        for path in sorted(pathlib.Path(sys.argv[2]).glob("*.jinja")):
            template = path.read_bytes().decode()
            expected[path.name] = {
                name: render(env, template, json.loads(json.dumps(context)))
                for name, context in conversations.items()
            }
        write(sys.argv[3], expected)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
