package strata_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"strata.dev/strata"
)

// What every binding must do, in Go. Says `feature NAME` for each thing that it has seen work.
// `cargo xtask test-bindings go` sets what is expected in the environment.

var (
	story = os.Getenv("STRATA_STORY")
	few   = []strata.Option{strata.Temperature(0), strata.MaxTokens(32)}
	long  = []strata.Option{strata.MaxTokens(4000), strata.Set("ignore_eos", true)}
	asked = strata.User("Tell me a story about a fox.")
)

func feature(name string) { fmt.Println("feature", name) }

func need[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func fails(t *testing.T, err error, code string) {
	t.Helper()
	var failed *strata.Error
	if !errors.As(err, &failed) || failed.Code != code {
		t.Fatalf("%v is not %s", err, code)
	}
}

func TestAll(t *testing.T) {
	ctx := context.Background()
	model := need[*strata.Model](t)(strata.Load("tale"))
	defer model.Close()
	greedy(t, ctx, model)
	cancel(t, ctx, model)
	schema(t, ctx, model)
	tools(t, ctx, model)
	embeddings(t, ctx, model)
	adapters(t, ctx)
	sessions(t, ctx, model)
	others(t, ctx, model)
	images(t, ctx)
	speech(t, ctx)
	stress(t, ctx)
}

func greedy(t *testing.T, ctx context.Context, model *strata.Model) {
	if text := need[string](t)(strata.Text(model.Chat(ctx, asked, few...))); text != story {
		t.Fatalf("%q is not %q", text, story)
	}
	feature("greedy")
	var pieces []string
	for event, err := range model.Chat(ctx, asked, few...) {
		if err != nil {
			t.Fatal(err)
		}
		pieces = append(pieces, event.Text)
	}
	if strings.Join(pieces, "") != story || len(pieces) < 6 {
		t.Fatal(pieces)
	}
	feature("stream")
}

func cancel(t *testing.T, ctx context.Context, model *strata.Model) {
	short, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	if _, err := strata.Text(model.Complete(short, "Once upon a time", long...)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	// In a prompt's computation, too.
	prompt, stop := context.WithTimeout(ctx, 3*time.Millisecond)
	defer stop()
	if _, err := strata.Text(model.Complete(prompt, strings.Repeat("fox owl ", 900))); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	over, stop := context.WithCancel(ctx)
	stop()
	if _, err := strata.Text(model.Complete(over, "Once", long...)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	for event, err := range model.Complete(ctx, "Once", long...) {
		if err != nil || event.Raw == nil {
			t.Fatal(err)
		}
		break
	}
	stream := need[*strata.Stream](t)(model.Request(ctx, "/v1/completions", []byte(`{"prompt":"Once","max_tokens":4000,"ignore_eos":true}`)))
	time.AfterFunc(20*time.Millisecond, stream.Cancel)
	_, err := stream.Next()
	fails(t, err, "canceled")
	stream.Close()
	stream.Close()
	_, err = stream.Next()
	fails(t, err, "invalid_argument")
	feature("cancel")
}

type hero struct {
	Animal string   `json:"animal" enum:"fox,owl,hare" description:"what it is"`
	Age    uint8    `json:"age"`
	Wise   *bool    `json:"wise"`
	Tags   []string `json:"tags,omitempty"`
}

func schema(t *testing.T, ctx context.Context, model *strata.Model) {
	parsed := need[hero](t)(strata.Parsed[hero](ctx, model, strata.User("Who is the hero?"), strata.Temperature(0), strata.MaxTokens(200)))
	if !strings.Contains("fox owl hare", parsed.Animal) || parsed.Animal == "" {
		t.Fatal(parsed)
	}
	feature("schema")
}

func tools(t *testing.T, ctx context.Context, model *strata.Model) {
	type place struct {
		City string `json:"city" enum:"Bern,Oslo"`
	}
	var cities []string
	weather := strata.Function("weather", "Tells the weather in a city.", func(where place) (any, error) {
		cities = append(cities, where.City)
		return map[string]int{"degrees": 18}, nil
	})
	options := []strata.Option{strata.Tools(weather), strata.Set("tool_choice", "required"), strata.Temperature(0), strata.MaxTokens(60)}
	text := need[string](t)(strata.Text(model.Chat(ctx, strata.User("Is it warm in Oslo?"), options...)))
	if text == "" || len(cities) == 0 || (cities[0] != "Bern" && cities[0] != "Oslo") {
		t.Fatal(text, cities)
	}
	feature("tools")
}

func embeddings(t *testing.T, ctx context.Context, model *strata.Model) {
	var expected []float32
	if err := json.Unmarshal([]byte(os.Getenv("STRATA_EMBEDDING")), &expected); err != nil {
		t.Fatal(err)
	}
	rows := need[[][]float32](t)(model.Embed(ctx, "a fox and an owl", "an owl"))
	if len(rows) != 2 || len(rows[0]) != len(expected) {
		t.Fatal(len(rows))
	}
	for i := range expected {
		if rows[0][i] != expected[i] {
			t.Fatal(i, rows[0][i], expected[i])
		}
	}
	feature("embeddings")
}

// An audio file as text.
func speech(t *testing.T, ctx context.Context) {
	if features := strings.Join(strata.Features(), " "); !strings.Contains(features, "transcriptions") {
		t.Fatal(features)
	}
	model := need[*strata.Model](t)(strata.Load(os.Getenv("STRATA_HEARING_MODEL"), strata.Options{Threads: 2}))
	defer model.Close()
	var heard strata.Transcript
	if err := json.Unmarshal([]byte(os.Getenv("STRATA_HEARD")), &heard); err != nil {
		t.Fatal(err)
	}
	told := need[*strata.Transcript](t)(model.Transcribe(ctx, os.Getenv("STRATA_SOUND")))
	if told.Text == "" || !reflect.DeepEqual(*told, heard) {
		t.Fatalf("%v is not %v", told, heard)
	}
	var failure *strata.Error
	if _, err := model.Transcribe(ctx, "/nowhere.wav"); !errors.As(err, &failure) || failure.Code != "not_found" {
		t.Fatal(err)
	}
	if _, err := strata.Text(model.Chat(ctx, strata.User("a"))); !errors.As(err, &failure) || failure.Code != "unsupported" {
		t.Fatal(err)
	}
	feature("speech")
}

// A message with an image, seen through a projector.
func images(t *testing.T, ctx context.Context) {
	options := strata.Options{Projector: os.Getenv("STRATA_EYES")}
	model := need[*strata.Model](t)(strata.Load(os.Getenv("STRATA_SEEING_MODEL"), options))
	defer model.Close()
	stream := need[*strata.Stream](t)(model.Request(ctx, "/v1/chat/completions", []byte(os.Getenv("STRATA_QUESTION"))))
	defer stream.Close()
	document := need[[]byte](t)(stream.Next())
	if !strings.Contains(string(document), os.Getenv("STRATA_SEEN")) {
		t.Fatalf("%s", document)
	}
	var question struct {
		Messages []struct {
			Content []struct {
				ImageURL struct{ URL string } `json:"image_url"`
			}
		}
	}
	if err := json.Unmarshal([]byte(os.Getenv("STRATA_QUESTION")), &question); err != nil {
		t.Fatal(err)
	}
	_, encoded, _ := strings.Cut(question.Messages[0].Content[1].ImageURL.URL, ",")
	image := need[[]byte](t)(base64.StdEncoding.DecodeString(encoded))
	parts := []any{strata.TextPart("123"), strata.ImagePart(image), strata.TextPart("ABC")}
	same := []strata.Option{strata.MaxTokens(6), strata.Temperature(0), strata.Set("ignore_eos", true)}
	text := need[string](t)(strata.Text(model.Chat(ctx, []strata.Message{{Role: "user", Parts: parts}}, same...)))
	var answer struct {
		Choices []struct{ Message strata.Message }
	}
	if err := json.Unmarshal(document, &answer); err != nil || answer.Choices[0].Message.Content != text {
		t.Fatalf("%v: %q is not in %s", err, text, document)
	}
	feature("images")
}

func adapters(t *testing.T, ctx context.Context) {
	model := need[*strata.Model](t)(strata.Load("tale", strata.Options{Adapters: []strata.Adapter{
		{Path: os.Getenv("STRATA_ADAPTER_ONE")}, {Path: os.Getenv("STRATA_ADAPTER_TWO")},
	}}))
	defer model.Close()
	ask := func(scales map[int]float64) string {
		options := []strata.Option{strata.Temperature(0), strata.MaxTokens(16)}
		if scales != nil {
			options = append(options, strata.Lora(scales))
		}
		text, err := strata.Text(model.Complete(ctx, "Once upon a time", options...))
		if err != nil {
			t.Error(err)
		}
		return text
	}
	wanted := []map[int]float64{nil, {0: 1}, {1: 1}}
	alone, together := make([]string, 3), make([]string, 3)
	for i, scales := range wanted {
		alone[i] = ask(scales)
	}
	var all sync.WaitGroup
	for i, scales := range wanted {
		all.Add(1)
		go func() {
			defer all.Done()
			together[i] = ask(scales)
		}()
	}
	all.Wait()
	for i := range wanted {
		if alone[i] != together[i] || alone[i] == alone[(i+1)%3] {
			t.Fatal(alone, together)
		}
	}
	if err := model.SetAdapters(wanted[2]); err != nil || ask(nil) != alone[2] {
		t.Fatal(err)
	}
	feature("adapters")
}

func sessions(t *testing.T, ctx context.Context, model *strata.Model) {
	options := []strata.Option{strata.Temperature(0), strata.MaxTokens(6)}
	session := need[*strata.Session](t)(model.Session())
	if err := session.Append("Once upon a time"); err != nil {
		t.Fatal(err)
	}
	fork := need[*strata.Session](t)(session.Fork())
	said := need[string](t)(strata.Text(session.Run(ctx, options...)))
	again := need[string](t)(strata.Text(fork.Run(ctx, options...)))
	restored := need[*strata.Session](t)(model.Restore(need[[]byte](t)(session.Save())))
	text := need[string](t)(restored.Text())
	if said != again || text != "Once upon a time"+said {
		t.Fatal(said, again, text)
	}
	_, err := model.Restore([]byte("nonsense"))
	fails(t, err, "invalid_argument")
	feature("sessions")
	held := need[*strata.Session](t)(model.Session())
	if err := held.Constrain(strata.Constraints{Regex: "(yes|no)", NeverToDisk: true}); err != nil {
		t.Fatal(err)
	}
	if err := held.Append("Once upon a time"); err != nil {
		t.Fatal(err)
	}
	if answer := need[string](t)(strata.Text(held.Run(ctx, options...))); answer != "yes" && answer != "no" {
		t.Fatal(answer)
	}
	_, err = held.Save()
	fails(t, err, "invalid_argument")
	fails(t, held.Constrain(strata.Constraints{Memory: -1}), "invalid_argument")
	feature("constraints")
}

func others(t *testing.T, ctx context.Context, model *strata.Model) {
	tokens := need[[]uint32](t)(model.Tokenize("Once upon a time"))
	if text := need[string](t)(model.Detokenize(tokens)); !strings.Contains(text, "upon a time") {
		t.Fatal(text)
	}
	feature("tokenize")
	plan := need[*strata.Plan](t)(strata.PlanModel("tale", strata.Options{Context: 512}))
	if !plan.Fits || plan.Total <= plan.Weights || plan.Context != 512 {
		t.Fatal(plan)
	}
	feature("plan")
	_, err := strata.Load("nowhere.gguf")
	fails(t, err, "not_found")
	_, err = strata.Load("tale", strata.Options{Memory: "1k"})
	fails(t, err, "out_of_memory")
	_, err = strata.Text(model.Chat(ctx, asked, strata.Set("tempreature", 1)))
	fails(t, err, "invalid_argument")
	other := need[*strata.Model](t)(strata.Load("tale"))
	if info := need[*strata.Info](t)(other.Info()); info.Name != "tale" {
		t.Fatal(info)
	}
	other.Close()
	other.Close()
	_, err = other.Tokenize("a")
	fails(t, err, "invalid_argument")
	feature("errors")
}

func resident() int {
	text, _ := os.ReadFile("/proc/self/statm")
	pages, _ := strconv.Atoi(strings.Fields(string(text))[1])
	return pages * os.Getpagesize() / 1024
}

func stress(t *testing.T, ctx context.Context) {
	seconds, err := strconv.ParseFloat(os.Getenv("STRATA_STRESS_SECONDS"), 64)
	if err != nil {
		seconds = 3
	}
	model := need[*strata.Model](t)(strata.Load("tale", strata.Options{Context: 64, Requests: 16}))
	length := time.Duration(seconds * float64(time.Second))
	end := time.Now().Add(length)
	var ended, canceled atomic.Int64
	var all sync.WaitGroup
	for range 64 {
		all.Add(1)
		go func() {
			defer all.Done()
			for time.Now().Before(end) {
				limit := time.Duration(rand.Intn(200)) * time.Millisecond
				if rand.Intn(2) == 0 {
					limit = time.Minute
				}
				bound, stop := context.WithTimeout(ctx, limit)
				prompt := fmt.Sprint("Once upon a time ", rand.Intn(50))
				_, err := strata.Text(model.Complete(bound, prompt, strata.MaxTokens(1+rand.Intn(24))))
				stop()
				switch {
				case err == nil:
					ended.Add(1)
				case errors.Is(err, context.DeadlineExceeded):
					canceled.Add(1)
				default:
					t.Error(err)
					return
				}
			}
		}()
	}
	time.Sleep(length / 3)
	early := resident()
	all.Wait()
	late := resident()
	model.Close()
	margin := 65_536
	if seconds >= 10 {
		margin = 24_576
	}
	if ended.Load() == 0 || canceled.Load() == 0 || late > early+margin {
		t.Fatal(ended.Load(), canceled.Load(), early, late)
	}
	fmt.Fprintln(os.Stderr, ended.Load(), "ended,", canceled.Load(), "canceled;", early, "kB, then", late, "kB")
	feature("stress")
}
