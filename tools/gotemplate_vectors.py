"""Makes the expected outputs of Go templates with Go's own text/template.

    python3 tools/gotemplate_vectors.py crates/template/tests/go

Needs the `go` command (Debian: golang-go). Reads the templates in FOLDER/templates, runs each on every conversation
below, and the snippets on their values, and writes FOLDER/vectors.json. The Go program gives templates the types that
Ollama's have: they print themselves as JSON.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = r'''
package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"text/template"
	"text/template/parse"
)

func asJSON(v any) string { b, _ := json.Marshal(v); return string(b) }

type Property struct {
	Type        string `json:"type"`
	Description string `json:"description,omitempty"`
}
type Parameters struct {
	Type       string              `json:"type"`
	Required   []string            `json:"required,omitempty"`
	Properties map[string]Property `json:"properties"`
}
type ToolFunction struct {
	Name        string     `json:"name"`
	Description string     `json:"description,omitempty"`
	Parameters  Parameters `json:"parameters"`
}

func (t *ToolFunction) String() string { return asJSON(t) }

type Tool struct {
	Type     string       `json:"type"`
	Function ToolFunction `json:"function"`
}

func (t Tool) String() string { return asJSON(t) }

type Tools []Tool

func (t Tools) String() string { return asJSON([]Tool(t)) }

type Arguments map[string]any

func (a Arguments) String() string { return asJSON(map[string]any(a)) }

type Call struct {
	Function struct {
		Name      string    `json:"name"`
		Arguments Arguments `json:"arguments"`
	} `json:"function"`
}
type Message struct {
	Role      string `json:"role"`
	Content   string `json:"content"`
	Thinking  string `json:"thinking"`
	ToolCalls []Call `json:"tool_calls"`
	ToolName  string `json:"tool_name"`
}
type Chat struct {
	Messages []Message `json:"messages"`
	Tools    Tools     `json:"tools"`
	Think    *bool     `json:"think"`
}

var funcs = template.FuncMap{
	"json":        asJSON,
	"currentDate": func(...string) string { return "2026-11-15" },
}

// reads says whether a template mentions a field, by walking what it was parsed into.
func reads(t *template.Template, name string) bool {
	return strings.Contains(t.Tree.Root.String(), "."+name)
}

// upTo keeps what stands before the first action that prints the response, and that action.
func upTo(list *parse.ListNode, done *bool) *parse.ListNode {
	if list == nil {
		return nil
	}
	kept := list.CopyList()
	kept.Nodes = nil
	branch := func(b *parse.BranchNode) {
		b.List = upTo(b.List, done)
		if b.ElseList != nil {
			b.ElseList = upTo(b.ElseList, done)
		}
	}
	for _, node := range list.Nodes {
		if *done {
			break
		}
		node = node.Copy()
		switch n := node.(type) {
		case *parse.ActionNode:
			*done = strings.Contains(n.String(), ".Response")
		case *parse.IfNode:
			branch(&n.BranchNode)
		case *parse.WithNode:
			branch(&n.BranchNode)
		case *parse.RangeNode:
			branch(&n.BranchNode)
		}
		kept.Nodes = append(kept.Nodes, node)
	}
	return kept
}

func render(source string, chat Chat) (string, error) {
	t, err := template.New("").Option("missingkey=zero").Funcs(funcs).Parse(source)
	if err != nil {
		return "", err
	}
	if !reads(t, "Messages") && !reads(t, "Response") {
		t, err = template.New("").Option("missingkey=zero").Funcs(funcs).Parse(source + "{{ .Response }}")
		if err != nil {
			return "", err
		}
	}
	var system []string
	var messages []*Message
	for i := range chat.Messages {
		m := chat.Messages[i]
		if m.Role == "system" {
			system = append(system, m.Content)
		}
		if n := len(messages); n > 0 && messages[n-1].Role == m.Role && m.Role != "tool" {
			if m.Content != "" {
				messages[n-1].Content += "\n\n" + m.Content
			}
		} else {
			messages = append(messages, &m)
		}
	}
	think := chat.Think != nil && *chat.Think
	data := func(more map[string]any) map[string]any {
		more["Tools"] = chat.Tools
		more["Think"] = think
		more["ThinkLevel"] = ""
		more["IsThinkSet"] = chat.Think != nil
		return more
	}
	var out bytes.Buffer
	if reads(t, "Messages") {
		err := t.Execute(&out, data(map[string]any{
			"System": strings.Join(system, "\n\n"), "Messages": messages, "Response": "",
		}))
		return out.String(), err
	}
	var s, p, r string
	round := func() map[string]any {
		return data(map[string]any{"System": s, "Prompt": p, "Response": r})
	}
	for _, m := range messages {
		if (m.Role == "system" && p+r != "") || (m.Role == "user" && r != "") {
			if err := t.Execute(&out, round()); err != nil {
				return "", err
			}
			s, p, r = "", "", ""
		}
		switch m.Role {
		case "system":
			s = m.Content
		case "user":
			p = m.Content
		case "assistant":
			r = m.Content
		}
	}
	done := false
	tree := parse.Tree{Root: upTo(t.Tree.Root, &done)}
	last, err := template.New("").Option("missingkey=zero").Funcs(funcs).AddParseTree("", &tree)
	if err != nil {
		return "", err
	}
	err = last.Execute(&out, round())
	return out.String(), err
}

// whole turns whole numbers into Go's int.
func whole(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return int(n)
		}
		f, _ := v.Float64()
		return f
	case []any:
		for i := range v {
			v[i] = whole(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = whole(v[k])
		}
	}
	return v
}

type Case struct {
	Source string `json:"source"`
	Chat   *Chat  `json:"chat"`
	Data   any    `json:"data"`
}
type Outcome struct {
	Output string `json:"output"`
	Failed bool   `json:"failed"`
}

func main() {
	var cases []Case
	decoder := json.NewDecoder(os.Stdin)
	decoder.UseNumber()
	if err := decoder.Decode(&cases); err != nil {
		panic(err)
	}
	var outcomes []Outcome
	for _, c := range cases {
		var text string
		var err error
		if c.Chat != nil {
			text, err = render(c.Source, *c.Chat)
		} else {
			var t *template.Template
			t, err = template.New("").Funcs(funcs).Parse(c.Source)
			if err == nil {
				var out bytes.Buffer
				err = t.Execute(&out, whole(c.Data))
				text = out.String()
			}
		}
		if err != nil {
			text = ""
		}
		outcomes = append(outcomes, Outcome{text, err != nil})
	}
	json.NewEncoder(os.Stdout).Encode(outcomes)
}
'''

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells the weather of a city & its <surroundings>",
        "parameters": {
            "type": "object",
            "required": ["city"],
            "properties": {
                "city": {"type": "string", "description": "The city"},
                "days": {"type": "integer", "description": "How many days"},
            },
        },
    },
}


def said(role, content="", **more):
    return {"role": role, "content": content, **more}


CALL = {"function": {"name": "weather", "arguments": {"city": "Bern", "days": 2}}}
TALK = [
    said("system", "Be brief."),
    said("user", "Hello"),
    said("assistant", "Hi. <b>How</b> are you?"),
    said("user", "Well, thanks.\nAnd you?"),
]
CHATS = {
    "one": {"messages": [said("user", "Why is the sky blue?")]},
    "system": {"messages": [said("system", "Be brief."), said("user", "Hello")]},
    "talk": {"messages": TALK},
    "two systems": {"messages": [said("system", "A."), said("system", "B."), said("user", "C")]},
    "late system": {"messages": [said("user", "C"), said("assistant", "D"), said("system", "E"), said("user", "F")]},
    "two users": {"messages": [said("user", "A"), said("user", "B"), said("assistant", "C"), said("user", "")]},
    "begun": {"messages": [said("user", "Count"), said("assistant", "One, two,")]},
    "tools": {"messages": [said("system", "Use tools."), said("user", "Weather?")], "tools": [WEATHER, WEATHER]},
    "called": {
        "messages": [
            said("user", "Weather in Bern?"),
            said("assistant", "", tool_calls=[CALL, CALL]),
            said("tool", "{\"sun\": \"yes\"}", tool_name="weather"),
            said("tool", "no rain", tool_name="weather"),
        ],
        "tools": [WEATHER],
    },
    "thinks": {"messages": TALK, "think": True},
    "thinks not": {"messages": TALK, "think": False},
    "thought": {
        "messages": [said("user", "2+2?"), said("assistant", "4", thinking="Easy."), said("user", "3+3?")],
        "think": True,
    },
    "thinking": {"messages": [said("user", "2+2?"), said("assistant", "4", thinking="Easy.")], "think": True},
}

DATA = {
    "Name": "Ada", "Empty": "", "Count": 3, "Zero": 0, "Half": 0.5, "Big": 1e30, "Yes": True, "No": False,
    "List": ["a", "b", "c"], "None": [], "Map": {"a": 1, "b": "<&>"}, "Deep": {"In": {"X": "y"}},
    "Items": [{"K": "one"}, {"K": "two"}],
}
SNIPPETS = [
    "plain", "{{ .Name }}", "a {{- .Name -}} b", "a {{- /* note */ -}} b", "{{/* note */}}x", "{{ \"q\\tq\\u00e9\" }}",
    "{{ `raw \\n` }}", "{{ 'a' }} {{ 0x1F }} {{ 1_000 }} {{ -3 }} {{ 1.5 }} {{ 1e3 }} {{ 017 }}", "{{ .Half }} {{ .Big }} {{ .Count }} {{ .Yes }}",
    "{{ if .Empty }}a{{ else if .Zero }}b{{ else if .None }}c{{ else }}d{{ end }}",
    "{{ if and .Name .Count }}1{{ end }}{{ if or .Empty .No }}2{{ end }}{{ if not .Empty }}3{{ end }}",
    "{{ and .Name .Empty }}|{{ or .Empty .Name }}|{{ or .Zero .No }}|{{ and 1 0 2 }}",
    "{{ range .List }}{{ . }},{{ end }}", "{{ range $i, $x := .List }}{{ $i }}={{ $x }} {{ end }}", "{{ range .None }}x{{ else }}none{{ end }}",
    "{{ range $x := .List }}{{ if eq $x \"b\" }}{{ continue }}{{ end }}{{ $x }}{{ end }}",
    "{{ range $i, $_ := .List }}{{ if eq $i 1 }}{{ break }}{{ end }}{{ . }}{{ end }}",
    "{{ range $k, $v := .Map }}{{ $k }}:{{ $v }};{{ end }}", "{{ range .Items }}{{ .K }}{{ $.Name }}{{ end }}",
    "{{ with .Deep }}{{ .In.X }}{{ end }}{{ with .Empty }}x{{ else }}y{{ end }}", "{{ .Deep.In.X }}{{ (index .Items 1).K }}{{ $.Deep.In.X }}",
    "{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ $y := 5 }}{{ $y }}{{ end }}{{ $x }}", "{{ $x := 1 }}{{ if true }}{{ $x := 2 }}{{ $x }}{{ end }}{{ $x }}",
    "{{ range $x := .List }}{{ $x = \"z\" }}{{ $x }}{{ end }}", "{{ $last := \"\" }}{{ range .List }}{{ $last = . }}{{ end }}{{ $last }}",
    "{{ eq .Count 3 }} {{ eq .Name \"a\" \"Ada\" }} {{ ne .Name \"x\" }} {{ lt 1 2 }} {{ le 2 2 }} {{ gt \"b\" \"a\" }} {{ ge 1.5 2.5 }}",
    "{{ eq 1 1.0 }}", "{{ lt 1 \"a\" }}", "{{ eq .List .List }}", "{{ eq .Missing \"x\" }}", "{{ if .Missing }}a{{ else }}b{{ end }}", "{{ .Name.First }}",
    "{{ len .List }} {{ len .Name }} {{ len .Map }}", "{{ len 3 }}", "{{ index .List 1 }} {{ index .Map \"a\" }} {{ index .Name 0 }}", "{{ index .List 3 }}",
    "{{ index .List -1 }}", "{{ len (slice .List 1) }} {{ index (slice .List 1 2) 0 }} {{ slice .Name 1 }} {{ slice .Name 0 2 }}", "{{ slice .List 4 }}", "{{ slice .List 2 1 }}",
    "{{ print 1 2 \"a\" \"b\" 3 4 }}|{{ println \"a\" 1 }}|{{ print }}", "{{ printf \"%s-%d-%v-%q-%t-%5d|%-5s|%05d|%.2f|%x|%c|%%\" .Name 3 .Half \"a\\\"b\" true 7 \"ab\" 42 1.239 255 97 }}",
    "{{ json .Map }} {{ json .Name }} {{ json .List }} {{ json .Half }} {{ json .Missing }}", "{{ .Name | printf \"%s and %s\" \"x\" }}", "{{ .List | len | eq 3 }}",
    "{{ (and .Yes (eq .Count 3)) }}", "{{ define \"t\" }}[{{ . }}]{{ end }}{{ template \"t\" .Name }}{{ template \"t\" 5 }}",
    "{{ define \"u\" }}{{ $ }}{{ end }}{{ with .Deep }}{{ template \"u\" .In.X }}{{ end }}", "{{ block \"b\" .Name }}<{{ . }}>{{ end }}{{ template \"b\" 1 }}",
    "{{ template \"none\" }}", "{{ currentDate }}", "{{ 1 | 2 }}", "{{ .Name 1 }}", "{{ nofunction }}", "{{ $undeclared }}", "{{ if }}x{{ end }}", "{{ if .Yes }}x", "{{ end }}",
    "{{ else }}", "{{ break }}", "{{ \"open }}", "{{ .Name", "{{ /* a */ }}", "{{ .Name }} }} {{ .Count }}", "{{ range $a, $b, $c := .List }}{{ end }}", "{{ 9223372036854775808 }}",
    "{{ range $i, $e := .Items }}{{ with $e.K }}{{ $i }}{{ . }}{{ end }}{{ end }}", "{{- if .Yes -}}  a  {{- end -}}  b", "{{\n.Name\n}}", "{{ .Name}}{{.Name -}}\n\n x",
    "{{ if eq (len (slice .List 2)) 1 }}last{{ end }}", "{{ not .Name | not }}", "{{ (index .Items 0).K | print \"x\" }}", "{{ true }}{{ false }}", "{{ nil }}",
    "{{ with $x := .Name }}{{ $x }}{{ . }}{{ end }}", "{{ if $x := .Count }}{{ $x }}{{ else }}{{ $x }}{{ end }}", "{{ range .Count }}{{ . }}{{ end }}",
]
# What Go 1.19 does not know yet.
NEWER = {"{{ range .Count }}{{ . }}{{ end }}"}


def main():
    folder = pathlib.Path(sys.argv[1])
    cases = []
    for path in sorted((folder / "templates").glob("*.gotmpl")):
        for name, chat in CHATS.items():
            cases.append({"template": path.name, "conversation": name, "source": path.read_text(), "chat": chat})
    for source in SNIPPETS:
        if source not in NEWER:
            cases.append({"source": source, "data": DATA})
    with tempfile.TemporaryDirectory() as place:
        program = pathlib.Path(place) / "main.go"
        program.write_text(PROGRAM)
        made = subprocess.run(["go", "run", str(program)], input=json.dumps(cases), capture_output=True, text=True, check=False)
    if made.returncode:
        sys.exit(made.stderr)
    chats, snippets = [], []
    for case, outcome in zip(cases, json.loads(made.stdout)):
        expected = None if outcome["failed"] else outcome["output"]
        if "chat" in case:
            chats.append({"template": case["template"], "conversation": case["conversation"], "output": expected})
        else:
            snippets.append({"source": case["source"], "output": expected})
    vectors = {"data": DATA, "conversations": CHATS, "chats": chats, "snippets": snippets}
    (folder / "vectors.json").write_text(json.dumps(vectors, indent=1, ensure_ascii=False) + "\n")
    print(f"{len(chats)} conversations, {len(snippets)} snippets")


main()
