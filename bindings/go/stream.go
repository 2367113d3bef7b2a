package strata

/*
#include <stdlib.h>
#include <strata.h>
*/
import "C"

import (
	"context"
	"encoding/json"
	"iter"
	"runtime"
	"sync"
	"unsafe"
)

// Stream is the documents of a request, as JSON.
type Stream struct {
	mutex  sync.Mutex
	handle *C.strata_stream
	stop   func() bool
	ctx    context.Context
}

func stream(ctx context.Context, open func() *C.strata_stream) (*Stream, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	opened := &Stream{ctx: ctx}
	err := call(func() bool {
		opened.handle = open()
		return opened.handle != nil
	})
	if err != nil {
		return nil, err
	}
	// The context cancels from a goroutine of its own: handles are looked up, so a late one does no harm.
	handle := opened.handle
	opened.stop = context.AfterFunc(ctx, func() { C.strata_cancel(handle) })
	runtime.SetFinalizer(opened, (*Stream).Close)
	return opened, nil
}

// Request asks what `strata serve` is asked at a path, with a JSON body, or with none for a GET.
func (m *Model) Request(ctx context.Context, path string, body []byte) (*Stream, error) {
	where := C.CString(path)
	defer C.free(unsafe.Pointer(where))
	var text *C.char
	if body != nil {
		text = C.CString(string(body))
		defer C.free(unsafe.Pointer(text))
	}
	return stream(ctx, func() *C.strata_stream { return C.strata_request(m.get(), where, text) })
}

func (m *Model) chatTools(ctx context.Context, body []byte) (*Stream, error) {
	text := C.CString(string(body))
	defer C.free(unsafe.Pointer(text))
	return stream(ctx, func() *C.strata_stream { return C.strata_chat_tools(m.get(), text) })
}

// Next waits for the next document; nil after the last. The goroutine's thread waits, others go on.
func (s *Stream) Next() ([]byte, error) {
	s.mutex.Lock()
	handle := s.handle
	s.mutex.Unlock()
	var document *C.char
	var status C.int
	err := call(func() bool {
		status = C.strata_next(handle, -1, &document)
		return status != C.STRATA_ERROR
	})
	runtime.KeepAlive(s)
	if err != nil {
		if cause := s.ctx.Err(); cause != nil {
			return nil, cause
		}
		return nil, err
	}
	if status == C.STRATA_END {
		return nil, nil
	}
	return take(document), nil
}

// All gives the documents as they come. Leaving the loop cancels the request.
func (s *Stream) All() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		defer s.Close()
		for {
			document, err := s.Next()
			if document == nil && err == nil {
				return
			}
			if !yield(document, err) || err != nil {
				return
			}
		}
	}
}

// Cancel cancels the request, from any goroutine, at any time.
func (s *Stream) Cancel() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	C.strata_cancel(s.handle)
}

// ToolResult gives the result of a tool call.
func (s *Stream) ToolResult(id, result string) error {
	name, text := C.CString(id), C.CString(result)
	defer C.free(unsafe.Pointer(name))
	defer C.free(unsafe.Pointer(text))
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return call(func() bool { return C.strata_tool_result(s.handle, name, text) == 0 })
}

// Close frees the stream and cancels what it waits for.
func (s *Stream) Close() {
	s.mutex.Lock()
	handle := s.handle
	s.handle = nil
	s.mutex.Unlock()
	s.stop()
	runtime.SetFinalizer(s, nil)
	C.strata_stream_free(handle)
}

// Session is a text that grows over many requests.
type Session struct {
	handle *C.strata_session
}

func session(open func() *C.strata_session) (*Session, error) {
	opened := &Session{}
	err := call(func() bool {
		opened.handle = open()
		return opened.handle != nil
	})
	if err != nil {
		return nil, err
	}
	runtime.SetFinalizer(opened, func(s *Session) { C.strata_session_free(s.handle) })
	return opened, nil
}

// Session gives an empty session.
func (m *Model) Session() (*Session, error) {
	return session(func() *C.strata_session { return C.strata_session_new(m.get()) })
}

// Restore gives a session that was saved, perhaps by another process.
func (m *Model) Restore(saved []byte) (*Session, error) {
	return session(func() *C.strata_session {
		return C.strata_session_restore(m.get(), (*C.uint8_t)(unsafe.SliceData(saved)), C.size_t(len(saved)))
	})
}

// Constraints are what a session's runs are held to, and where nothing of them may go. Limits are for each run; 0 is none.
type Constraints struct {
	DeadlineMS      int      `json:"deadline_ms,omitempty"`
	FirstTokenMS    int      `json:"first_token_ms,omitempty"`
	TokenMS         int      `json:"token_ms,omitempty"`
	Memory          int64    `json:"memory,omitempty"`
	ResponseFormat  any      `json:"response_format,omitempty"`
	Regex           string   `json:"guided_regex,omitempty"`
	Grammar         string   `json:"grammar,omitempty"`
	Choice          []string `json:"guided_choice,omitempty"`
	NeverToDisk     bool     `json:"never_to_disk,omitempty"`
	NeverOffMachine bool     `json:"never_off_machine,omitempty"`
}

// Constrain holds all later runs, and those of forks, to constraints.
func (s *Session) Constrain(constraints Constraints) error {
	written, err := json.Marshal(constraints)
	if err != nil {
		return err
	}
	given := C.CString(string(written))
	defer C.free(unsafe.Pointer(given))
	defer runtime.KeepAlive(s)
	return call(func() bool { return C.strata_session_constrain(s.handle, given) == 0 })
}

// Append appends to the text. Control tokens in it are read as such.
func (s *Session) Append(text string) error {
	given := C.CString(text)
	defer C.free(unsafe.Pointer(given))
	defer runtime.KeepAlive(s)
	return call(func() bool { return C.strata_session_append(s.handle, given) == 0 })
}

// Run continues the text.
func (s *Session) Run(ctx context.Context, options ...Option) iter.Seq2[Event, error] {
	return answer(options, func(body []byte, _ bool) (*Stream, error) {
		text := C.CString(string(body))
		defer C.free(unsafe.Pointer(text))
		defer runtime.KeepAlive(s)
		return stream(ctx, func() *C.strata_stream { return C.strata_session_run(s.handle, text) })
	})
}

// Text gives the text so far.
func (s *Session) Text() (string, error) {
	defer runtime.KeepAlive(s)
	var given *C.char
	err := call(func() bool {
		given = C.strata_session_text(s.handle)
		return given != nil
	})
	if err != nil {
		return "", err
	}
	return string(take(given)), nil
}

// Fork gives another session with the same text.
func (s *Session) Fork() (*Session, error) {
	defer runtime.KeepAlive(s)
	return session(func() *C.strata_session { return C.strata_session_fork(s.handle) })
}

// Save gives the session as bytes.
func (s *Session) Save() ([]byte, error) {
	defer runtime.KeepAlive(s)
	var count C.size_t
	var bytes *C.uint8_t
	err := call(func() bool {
		bytes = C.strata_session_save(s.handle, &count)
		return bytes != nil
	})
	if err != nil {
		return nil, err
	}
	defer C.strata_bytes_free(bytes, count)
	return C.GoBytes(unsafe.Pointer(bytes), C.int(count)), nil
}
