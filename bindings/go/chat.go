package strata

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"reflect"
	"strings"
)

// Message is a message of a conversation.
type Message struct {
	Role       string          `json:"role"`
	Content    string          `json:"content"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
	ToolCalls  json.RawMessage `json:"tool_calls,omitempty"`
	// Parts, where there are any, stand for Content: texts and images, as TextPart and ImagePart make them.
	Parts []any `json:"-"`
}

// MarshalJSON writes a message in OpenAI's shape.
func (m Message) MarshalJSON() ([]byte, error) {
	type plain Message
	if m.Parts == nil {
		return json.Marshal(plain(m))
	}
	return json.Marshal(struct {
		plain
		Content []any `json:"content"`
	}{plain(m), m.Parts})
}

// TextPart is a text in a message of several parts.
func TextPart(text string) any { return map[string]any{"type": "text", "text": text} }

// ImagePart is an image in a message, for models that see: the bytes of a PNG, JPEG, WebP, GIF or BMP file.
func ImagePart(file []byte) any {
	// The engine looks at the bytes, not at what an address says they are.
	url := "data:;base64," + base64.StdEncoding.EncodeToString(file)
	return map[string]any{"type": "image_url", "image_url": map[string]any{"url": url}}
}

// User is a conversation of one message.
func User(text string) []Message { return []Message{{Role: "user", Content: text}} }

// ToolCall is a tool that the model calls.
type ToolCall struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// Event is a piece of an answer.
type Event struct {
	Text     string
	Thinking string
	Calls    []ToolCall
	Finish   string
	// Raw is the document that it came with, in OpenAI's shape.
	Raw json.RawMessage
}

// Tool is a tool that a function answers, by itself.
type Tool struct {
	Name        string
	Description string
	Parameters  any
	Run         func(arguments json.RawMessage) (any, error)
}

// Function makes a tool of a function. The schema of its arguments comes from the struct that it takes.
func Function[A any](name, description string, run func(A) (any, error)) Tool {
	return Tool{name, description, SchemaOf[A](), func(given json.RawMessage) (any, error) {
		var arguments A
		if err := json.Unmarshal(given, &arguments); err != nil {
			return nil, err
		}
		return run(arguments)
	}}
}

// Option sets a field of a request.
type Option func(*request)

type request struct {
	fields map[string]any
	tools  []Tool
}

// Set sets any field that OpenAI's requests, or `strata serve`, have.
func Set(name string, value any) Option {
	return func(r *request) { r.fields[name] = value }
}

// Temperature says how freely tokens are sampled; 0 always takes the likeliest.
func Temperature(value float64) Option { return Set("temperature", value) }

// MaxTokens limits the answer.
func MaxTokens(tokens int) Option { return Set("max_tokens", tokens) }

// Schema constrains the answer to a JSON schema.
func Schema(schema any) Option {
	form := map[string]any{"name": "answer", "schema": schema, "strict": true}
	return Set("response_format", map[string]any{"type": "json_schema", "json_schema": form})
}

// Lora applies adapters by number, with their strengths.
func Lora(scales map[int]float64) Option { return Set("lora", loras(scales)) }

// Tools offers the model tools that functions answer.
func Tools(tools ...Tool) Option {
	return func(r *request) { r.tools = append(r.tools, tools...) }
}

func build(options []Option) *request {
	built := &request{fields: map[string]any{"stream": true}}
	for _, option := range options {
		option(built)
	}
	var documents []any
	for _, tool := range built.tools {
		function := map[string]any{
			"name": tool.Name, "description": tool.Description, "parameters": tool.Parameters, "strict": true,
		}
		documents = append(documents, map[string]any{"type": "function", "function": function})
	}
	if documents != nil {
		built.fields["tools"] = documents
	}
	return built
}

// Chat asks for the next message of a conversation. Leaving the loop, or the context's end, cancels the request.
func (m *Model) Chat(ctx context.Context, messages []Message, options ...Option) iter.Seq2[Event, error] {
	return answer(append(options, Set("messages", messages)), func(body []byte, tools bool) (*Stream, error) {
		if tools {
			return m.chatTools(ctx, body)
		}
		return m.Request(ctx, "/v1/chat/completions", body)
	})
}

// Complete continues a text as it is.
func (m *Model) Complete(ctx context.Context, prompt string, options ...Option) iter.Seq2[Event, error] {
	return answer(append(options, Set("prompt", prompt)), func(body []byte, _ bool) (*Stream, error) {
		return m.Request(ctx, "/v1/completions", body)
	})
}

// Text waits for an answer's whole text.
func Text(answer iter.Seq2[Event, error]) (string, error) {
	var text strings.Builder
	for event, err := range answer {
		if err != nil {
			return "", err
		}
		if len(event.Calls) > 0 {
			// What was said before its calls is no part of the answer.
			text.Reset()
		}
		text.WriteString(event.Text)
	}
	return text.String(), nil
}

// Parsed asks for an answer that is a T: its schema comes from the type.
func Parsed[T any](ctx context.Context, m *Model, messages []Message, options ...Option) (T, error) {
	var value T
	text, err := Text(m.Chat(ctx, messages, append(options, Schema(SchemaOf[T]()))...))
	if err != nil {
		return value, err
	}
	return value, json.Unmarshal([]byte(text), &value)
}

type document struct {
	Object  string
	Calls   []ToolCall
	Choices []struct {
		Index int
		Text  string
		Delta struct {
			Content  string
			Thinking string `json:"reasoning_content"`
		}
		Finish string `json:"finish_reason"`
	}
}

func answer(options []Option, open func(body []byte, tools bool) (*Stream, error)) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		request := build(options)
		body, err := json.Marshal(request.fields)
		if err != nil {
			yield(Event{}, err)
			return
		}
		stream, err := open(body, len(request.tools) > 0)
		if err != nil {
			yield(Event{}, err)
			return
		}
		for raw, err := range stream.All() {
			if err != nil {
				yield(Event{}, err)
				return
			}
			var heard document
			if err := json.Unmarshal(raw, &heard); err != nil {
				yield(Event{}, err)
				return
			}
			event := Event{Calls: heard.Calls, Raw: raw}
			for _, choice := range heard.Choices {
				if choice.Index == 0 {
					event.Text += choice.Text + choice.Delta.Content
					event.Thinking += choice.Delta.Thinking
					event.Finish = choice.Finish
				}
			}
			if !yield(event, nil) {
				return
			}
			if heard.Object == "tool.calls" && !results(stream, request.tools, heard.Calls) {
				return
			}
		}
	}
}

// results answers calls. Says whether there were functions for all of them.
func results(stream *Stream, tools []Tool, calls []ToolCall) bool {
	for _, call := range calls {
		found := false
		for _, tool := range tools {
			if tool.Name != call.Name {
				continue
			}
			found = true
			if stream.ToolResult(call.ID, result(tool, call)) != nil {
				return false
			}
		}
		if !found {
			return false
		}
	}
	return true
}

// result is what the model is told of a call, errors too.
func result(tool Tool, call ToolCall) (told string) {
	defer func() {
		if failed := recover(); failed != nil {
			told = fmt.Sprint("error: ", failed)
		}
	}()
	value, err := tool.Run(call.Arguments)
	if err != nil {
		return "error: " + err.Error()
	}
	if text, ok := value.(string); ok {
		return text
	}
	written, err := json.Marshal(value)
	if err != nil {
		return "error: " + err.Error()
	}
	return string(written)
}

// Embed gives a vector of length 1 for each text.
func (m *Model) Embed(ctx context.Context, texts ...string) ([][]float32, error) {
	body, err := json.Marshal(map[string]any{"input": texts, "encoding_format": "base64"})
	if err != nil {
		return nil, err
	}
	stream, err := m.Request(ctx, "/v1/embeddings", body)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	raw, err := stream.Next()
	if err != nil {
		return nil, err
	}
	var answer struct{ Data []struct{ Embedding string } }
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, err
	}
	rows := make([][]float32, len(answer.Data))
	for i, one := range answer.Data {
		packed, err := base64.StdEncoding.DecodeString(one.Embedding)
		if err != nil {
			return nil, err
		}
		rows[i] = make([]float32, len(packed)/4)
		for j := range rows[i] {
			rows[i][j] = math.Float32frombits(binary.LittleEndian.Uint32(packed[4*j:]))
		}
	}
	return rows, nil
}

// Transcript is what is said in an audio file.
type Transcript struct {
	Text     string
	Language string
	Duration float64
	Segments []Segment
}

// Segment is a piece of a transcript, with its time in seconds.
type Segment struct {
	Start, End float64
	Text       string
}

// Transcribe says what is said in an audio file, with a model for speech. Set gives the fields of /v1/audio/transcriptions.
func (m *Model) Transcribe(ctx context.Context, file string, options ...Option) (*Transcript, error) {
	asked := &request{fields: map[string]any{"file": file, "response_format": "verbose_json"}}
	for _, option := range options {
		option(asked)
	}
	body, err := json.Marshal(asked.fields)
	if err != nil {
		return nil, err
	}
	stream, err := m.Request(ctx, "/v1/audio/transcriptions", body)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	raw, err := stream.Next()
	if err != nil {
		return nil, err
	}
	transcript := &Transcript{}
	return transcript, json.Unmarshal(raw, transcript)
}

// SchemaOf is the JSON schema of a type. A field's `enum:"a,b"` lists what it may be, `description:"…"` describes it; one
// with `omitempty` may be missing.
func SchemaOf[T any]() map[string]any {
	return schemaOf(reflect.TypeFor[T]())
}

func schemaOf(kind reflect.Type) map[string]any {
	switch kind.Kind() {
	case reflect.Pointer:
		return map[string]any{"anyOf": []any{schemaOf(kind.Elem()), map[string]any{"type": "null"}}}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return map[string]any{"type": "integer", "minimum": 0}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Slice, reflect.Array:
		return map[string]any{"type": "array", "items": schemaOf(kind.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(kind.Elem())}
	case reflect.Struct:
		return schemaOfStruct(kind)
	}
	return map[string]any{}
}

func schemaOfStruct(kind reflect.Type) map[string]any {
	properties, required := &fields{}, []string{}
	for i := range kind.NumField() {
		field := kind.Field(i)
		name, rest, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !field.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = field.Name
		}
		schema := schemaOf(field.Type)
		if words := field.Tag.Get("enum"); words != "" {
			schema = map[string]any{"enum": strings.Split(words, ",")}
		}
		if words := field.Tag.Get("description"); words != "" {
			schema["description"] = words
		}
		*properties = append(*properties, property{name, schema})
		if !strings.Contains(rest, "omitempty") {
			required = append(required, name)
		}
	}
	return map[string]any{
		"type": "object", "properties": properties, "required": required, "additionalProperties": false,
	}
}

type property struct {
	name   string
	schema map[string]any
}

// fields keeps the order of a struct, which is the order that the model writes in.
type fields []property

func (f *fields) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, one := range *f {
		if i > 0 {
			out.WriteByte(',')
		}
		name, _ := json.Marshal(one.name)
		schema, err := json.Marshal(one.schema)
		if err != nil {
			return nil, err
		}
		out.Write(name)
		out.WriteByte(':')
		out.Write(schema)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}
