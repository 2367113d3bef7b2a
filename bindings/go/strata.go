// Package strata runs language models in your own process: no daemon, the same bytes everywhere.
//
//	model, err := strata.Load("tale")
//	defer model.Close()
//	for event, err := range model.Chat(ctx, strata.User("Tell me a story about a fox.")) {
//		fmt.Print(event.Text)
//	}
//
// The C library is found by pkg-config, as "strata".
package strata

/*
#cgo pkg-config: strata
#include <stdlib.h>
#include <strata.h>
*/
import "C"

import (
	"encoding/json"
	"runtime"
	"strings"
	"sync"
	"unsafe"
)

// Error is what went wrong: a sentence, a code that stays the same from version to version, perhaps a hint.
type Error struct {
	Code    string
	Message string
	Hint    string
}

func (e *Error) Error() string { return e.Message }

// call does something on one thread of the system and gives the error that it left there. C's errors belong to threads.
func call(act func() bool) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if act() {
		return nil
	}
	text := func(given *C.char) string {
		if given == nil {
			return ""
		}
		return C.GoString(given)
	}
	return &Error{
		Code:    text(C.strata_error_code()),
		Message: text(C.strata_error_message()),
		Hint:    text(C.strata_error_hint()),
	}
}

// take copies a text of the library's, once, and frees it. Nobody else has the copy, so it may be changed.
func take(given *C.char) []byte {
	text := C.GoString(given)
	C.strata_string_free(given)
	return unsafe.Slice(unsafe.StringData(text), len(text))
}

// Options say how a model is opened. The zero value is the defaults.
type Options struct {
	Memory     string    `json:"memory,omitempty"`
	Threads    int       `json:"threads,omitempty"`
	Context    int       `json:"context,omitempty"`
	Requests   int       `json:"requests,omitempty"`
	Batch      int       `json:"batch,omitempty"`
	KV         string    `json:"kv,omitempty"`
	Stream     string    `json:"stream,omitempty"`
	Quantize   string    `json:"quantize,omitempty"`
	Adapters   []Adapter `json:"adapters,omitempty"`
	DraftModel string    `json:"draft_model,omitempty"`
	MaxDraft   int       `json:"max_draft,omitempty"`
	// Drafts is what tokens are drafted from, if not from texts or with the draft model: "mtp" or "auto".
	Drafts string `json:"drafts,omitempty"`
	// Projector is the file that lets the model see; one beside the model is found by itself.
	Projector string `json:"projector,omitempty"`
	Device    string `json:"device,omitempty"`
	// GPULayers is how many layers are on GPUs, the last ones; as many as fit where it is 0.
	GPULayers int `json:"gpu_layers,omitempty"`
	// DeviceLost is what becomes of a model whose GPU fails: "stop" or "cpu".
	DeviceLost string `json:"device_lost,omitempty"`
	Sessions   bool   `json:"sessions,omitempty"`
	// ImageURLs has images fetched from the https addresses that requests name.
	ImageURLs bool   `json:"image_urls,omitempty"`
	Peers     *Peers `json:"peers,omitempty"`
}

// Peers are machines that run `strata peer` and have some of the layers: their addresses as HOST:PORT, the key that all of them
// know, and how many layers this machine and each of them has; by their memory if that is left out.
type Peers struct {
	Addresses []string `json:"addresses"`
	Key       string   `json:"key"`
	Layers    []int    `json:"layers,omitempty"`
}

// Adapter is a LoRA adapter with its strength in requests that name none.
type Adapter struct {
	ID    int     `json:"-"`
	Path  string  `json:"path"`
	Scale float64 `json:"scale"`
}

// Model is a model in memory. Any number of goroutines may ask it at once.
type Model struct {
	mutex  sync.Mutex
	handle *C.strata_model
}

func texts(model string, options []Options) (*C.char, *C.char, func()) {
	written := []byte("{}")
	if len(options) > 0 {
		written, _ = json.Marshal(options[0])
	}
	name, json := C.CString(model), C.CString(string(written))
	return name, json, func() {
		C.free(unsafe.Pointer(name))
		C.free(unsafe.Pointer(json))
	}
}

// needed is what this package asks of the library, by name.
var needed = C.CString("chat completions constraints embeddings plan sessions tokenize tools")

// Load opens a model: a GGUF file, a Hugging Face folder, a name in the store, or "tale", which is built in.
func Load(model string, options ...Options) (*Model, error) {
	if version := C.strata_abi_version(); version != C.STRATA_ABI_VERSION {
		return nil, &Error{Code: "unsupported", Message: "the library is of another version than this package"}
	}
	if err := call(func() bool { return C.strata_require(needed) == 0 }); err != nil {
		return nil, err
	}
	name, json, free := texts(model, options)
	defer free()
	opened := &Model{}
	err := call(func() bool {
		opened.handle = C.strata_open(name, json)
		return opened.handle != nil
	})
	if err != nil {
		return nil, err
	}
	runtime.SetFinalizer(opened, (*Model).Close)
	return opened, nil
}

// Features says what the library can do, by name.
func Features() []string { return strings.Fields(C.GoString(C.strata_features())) }

// Plan is what a model takes, in bytes, against what there is.
type Plan struct {
	Weights, KV, Activations, Draft, Program, Total, Limit uint64
	LimitedBy                                              string `json:"limited_by"`
	Fits                                                   bool
	Streamed                                               *uint64
	Context                                                int
	Remedies                                               []string
}

// PlanModel says what a model would take, without loading it.
func PlanModel(model string, options ...Options) (*Plan, error) {
	name, text, free := texts(model, options)
	defer free()
	var given *C.char
	err := call(func() bool {
		given = C.strata_plan(name, text)
		return given != nil
	})
	if err != nil {
		return nil, err
	}
	plan := &Plan{}
	return plan, json.Unmarshal(take(given), plan)
}

// Close lets go of the model. It leaves memory when its last stream and session are gone too.
func (m *Model) Close() {
	m.mutex.Lock()
	handle := m.handle
	m.handle = nil
	m.mutex.Unlock()
	runtime.SetFinalizer(m, nil)
	C.strata_model_free(handle)
}

func (m *Model) get() *C.strata_model {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.handle
}

// Info is what is known of a model.
type Info struct {
	Name           string
	Family         string
	Parameters     uint64
	Quantization   string
	Context        int
	TrainedContext int `json:"trained_context"`
	Embedding      int
	Vocabulary     int
	Capabilities   []string
	Adapters       []Adapter
}

// Info says what is known of the model.
func (m *Model) Info() (*Info, error) {
	var given *C.char
	err := call(func() bool {
		given = C.strata_model_info(m.get())
		return given != nil
	})
	if err != nil {
		return nil, err
	}
	info := &Info{}
	return info, json.Unmarshal(take(given), info)
}

// SetAdapters sets the strength of adapters for requests that name none; those that are not listed are left out.
func (m *Model) SetAdapters(scales map[int]float64) error {
	text := C.CString(string(loras(scales)))
	defer C.free(unsafe.Pointer(text))
	return call(func() bool { return C.strata_adapters_set(m.get(), text) == 0 })
}

func loras(scales map[int]float64) json.RawMessage {
	type lora struct {
		ID    int     `json:"id"`
		Scale float64 `json:"scale"`
	}
	list := []lora{}
	for id, scale := range scales {
		list = append(list, lora{id, scale})
	}
	written, _ := json.Marshal(list)
	return written
}

// Tokenize gives the tokens of a text, with those that the model wants around one.
func (m *Model) Tokenize(text string) ([]uint32, error) {
	given := C.CString(text)
	defer C.free(unsafe.Pointer(given))
	var count C.size_t
	var tokens *C.uint32_t
	err := call(func() bool {
		tokens = C.strata_tokenize(m.get(), given, C.size_t(len(text)), &count)
		return tokens != nil
	})
	if err != nil {
		return nil, err
	}
	defer C.strata_tokens_free(tokens, count)
	all := unsafe.Slice((*uint32)(unsafe.Pointer(tokens)), int(count))
	return append([]uint32(nil), all...), nil
}

// Detokenize gives the text of tokens.
func (m *Model) Detokenize(tokens []uint32) (string, error) {
	var given *C.char
	err := call(func() bool {
		given = C.strata_detokenize(m.get(), (*C.uint32_t)(unsafe.SliceData(tokens)), C.size_t(len(tokens)))
		return given != nil
	})
	if err != nil {
		return "", err
	}
	return string(take(given)), nil
}
