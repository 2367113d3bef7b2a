/* Strata: language models in your own program.
 *
 * Made from the source of bindings/c by its tests: do not edit.
 *
 * Every function may be called from any thread at any time. Texts are UTF-8 and end with a zero byte; those that go in
 * stay the caller's and need not outlive the call. Handles are looked up, never followed: a handle that was freed is an
 * error, not a crash. A function that fails returns NULL or -1, and strata_error_code and strata_error_message say why to
 * the thread that called it. Nothing is thrown or unwound.
 */
#ifndef STRATA_H
#define STRATA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The number of this interface; compare it with strata_abi_version(). */
#define STRATA_ABI_VERSION 1

/* A model in memory. */
typedef struct strata_model strata_model;
/* An answer on its way, or a load: JSON documents to pull. */
typedef struct strata_stream strata_stream;
/* A text that grows over many requests. */
typedef struct strata_session strata_session;

/* What strata_next returns. */
enum {
    STRATA_ERROR = -1,
    STRATA_END = 0,
    STRATA_DOCUMENT = 1,
    STRATA_PENDING = 2
};

/* ---- The library ---- */

/* The number of this interface. A program that was compiled with another STRATA_ABI_VERSION must not go on. */
uint32_t strata_abi_version(void);

/* The library's version, such as "0.1.0". The text is the library's and stays. */
const char *strata_version(void);

/* What this build can do: names with a space between them, such as "adapters chat completions". The text is the
 * library's and stays. */
const char *strata_features(void);

/* Checks that this build can do all of that: names as strata_features has them, with spaces between. Returns 0, or -1 with the
 * error "unsupported", which says what is missing. Call it once before anything else, after strata_abi_version. */
int strata_require(const char *features);

/* ---- Errors ---- */

/* The kind of the error that the thread's latest call failed with, a name that stays the same from version to version:
 * invalid_argument, not_found, invalid_model, out_of_memory, io, unsupported, template, context_exceeded, overloaded,
 * canceled, timed_out, closed, internal. NULL if it did not fail. The text is good until the thread's next call; what is freed
 * without a fault leaves the error as it is. */
const char *strata_error_code(void);

/* What went wrong in the thread's latest call, a sentence in UTF-8. NULL if it did not fail. The text is good until the
 * thread's next call. */
const char *strata_error_message(void);

/* What the user can do about it. NULL if there is no advice. The text is good until the thread's next call. */
const char *strata_error_hint(void);

/* ---- Models ---- */

/* Opens a model and waits until it is in memory: a GGUF file, a Hugging Face folder, a name in the store, or "tale", which
 * is built in. options is a JSON object or NULL: memory ("6G"), threads, batch, kv ("f16", "q8_0", "f32"), context,
 * requests, stream ("auto", "never", "always"), quantize, max_draft, drafts ("mtp", "auto"), draft_model, adapters (a list of paths or of
 * {"path", "scale"}), projector (the file that lets the model see; one beside the model is found by itself), device ("cpu",
 * "auto", "cuda:N", "vulkan:N", "cuda:N,M"), gpu_layers, device_lost ("stop", "cpu"), cache ({"folder", "bytes"}), sessions, image_urls (true: images are fetched from the https addresses that
 * requests name), peers ({"addresses": ["HOST:PORT"], "key", "layers"}: machines that run `strata peer` and have some of the
 * layers). A model for speech takes threads alone. Returns a model that strata_model_free frees, or NULL. */
strata_model *strata_open(const char *model, const char *options);

/* Says what a model would take, in bytes, without loading it: a JSON object with weights, kv, activations, total, limit,
 * fits, context, remedies and others. Takes what strata_open takes. Returns a text that strata_string_free frees, or NULL. */
char *strata_plan(const char *model, const char *options);

/* Another handle to the same model, which strata_model_free frees too. Returns NULL on errors. */
strata_model *strata_model_clone(strata_model *model);

/* Frees a handle to a model. Streams and sessions hold the model too: it leaves memory with the last of them all, and the
 * call that frees that one waits for it. NULL is allowed. */
void strata_model_free(strata_model *model);

/* What is known of a model: a JSON object with name, family, parameters, context, capabilities, adapters, peers and others.
 * Returns a text that strata_string_free frees, or NULL. */
char *strata_model_info(strata_model *model);

/* The adapters that a model was opened with: a JSON list of {"id", "path", "scale"}. Requests ask for one with
 * "lora": [{"id": 0, "scale": 1}]. Returns a text that strata_string_free frees, or NULL. */
char *strata_adapters(strata_model *model);

/* Sets the strength of adapters for requests that name none, from a JSON list of {"id", "scale"}; those that are not
 * listed are left out. Returns 0, or -1 on errors. */
int strata_adapters_set(strata_model *model, const char *scales);

/* Tokenizes a text of so many bytes of UTF-8, with the tokens that the model wants around one. Control tokens in it are
 * read as plain text. Their number goes to count. Returns tokens that strata_tokens_free frees, or NULL. */
uint32_t *strata_tokenize(strata_model *model, const char *text, size_t bytes, size_t *count);

/* The text of tokens, without control tokens and without zero bytes. Returns a text that strata_string_free frees, or
 * NULL. */
char *strata_detokenize(strata_model *model, const uint32_t *tokens, size_t count);

/* ---- Requests and their streams ---- */

/* Opens a model without waiting for it. The stream's documents say how far it is, {"loaded", "total"} in bytes; at its end
 * strata_stream_model returns the model; canceling it stops the load. Takes what strata_open takes. Returns a stream that
 * strata_stream_free frees, or NULL. */
strata_stream *strata_load(const char *model, const char *options);

/* The model that strata_load has loaded, once its stream has ended, and only once. Returns a model that strata_model_free
 * frees, or NULL. */
strata_model *strata_stream_model(strata_stream *stream);

/* Asks for the next message of a conversation. request is the body of OpenAI's POST /v1/chat/completions as JSON, with
 * tools, response_format, lora and all else that `strata serve` takes. With "stream": true the stream's documents are
 * chunks, else there is one, the whole answer. Never waits. Returns a stream that strata_stream_free frees, or NULL. */
strata_stream *strata_chat(strata_model *model, const char *request);

/* Like strata_chat, but the conversation goes on after tool calls: where an answer ends with calls, a document
 * {"object": "tool.calls", "calls": [{"id", "name", "arguments"}]} follows it, the stream waits until each call has a result
 * from strata_tool_result, and the next answer follows. A choice that requires a call holds for the first answer only. */
strata_stream *strata_chat_tools(strata_model *model, const char *request);

/* Gives the result of a tool call of strata_chat_tools, a text for the model. Returns 0, or -1 on errors. */
int strata_tool_result(strata_stream *stream, const char *id, const char *result);

/* Asks how a text goes on. request is the body of POST /v1/completions; all else is as with strata_chat. */
strata_stream *strata_complete(strata_model *model, const char *request);

/* Embeds texts. request is the body of POST /v1/embeddings. The stream has one document. */
strata_stream *strata_embed(strata_model *model, const char *request);

/* Ranks documents by how well they answer a query. request is the body of POST /v1/rerank. The stream has one document. */
strata_stream *strata_rerank(strata_model *model, const char *request);

/* Turns speech into text, with a model for speech (Whisper, Wav2Vec2, HuBERT). request has the fields of POST /v1/audio/transcriptions as JSON; file is the
 * path of a WAV, FLAC, MP3 or Ogg Vorbis file, or its bytes as "data:;base64,...". The stream has one document,
 * {"text"} alone where response_format is "text", "srt" or "vtt"; with "stream": true it has one for each piece of text.
 * Returns a stream that strata_stream_free frees, or NULL. */
strata_stream *strata_transcribe(strata_model *model, const char *request);

/* Asks for anything that `strata serve` answers with one model: path is a route such as "/v1/responses", "/v1/messages" or
 * "/api/chat", request its JSON body, or NULL for a GET. All else is as with strata_chat. */
strata_stream *strata_request(strata_model *model, const char *path, const char *request);

/* Takes the next document of a stream. Waits for it for timeout_ms at most: 0 never waits, -1 waits without limit.
 * Returns STRATA_DOCUMENT, and writes a JSON text that strata_string_free frees; STRATA_PENDING if none came in time;
 * STRATA_END after the last one; STRATA_ERROR if the stream failed or was canceled, as strata_error_code says. document
 * may be NULL, which drops the text; it is set to NULL where there is none. Any number of threads may call this. */
int strata_next(strata_stream *stream, int64_t timeout_ms, char **document);

/* A file descriptor for poll, epoll, kqueue and event loops: while it can be read, call strata_next with a timeout of 0
 * until that returns STRATA_PENDING. It is the stream's: do not read or close it; it is closed with the stream. Returns -1
 * on errors, and always on Windows, which has none: call strata_next in a thread there. */
int strata_stream_fd(strata_stream *stream);

/* Cancels a stream, at any time, from any thread, also while its prompt is computed or another thread waits in strata_next:
 * it fails with "canceled". One that has ended stays as it is. Never waits. */
void strata_cancel(strata_stream *stream);

/* Frees a stream and cancels what it waits for. A thread that waits in strata_next at that moment is woken with the error
 * "canceled". NULL is allowed. */
void strata_stream_free(strata_stream *stream);

/* ---- Sessions ---- */

/* An empty session: a text that grows over many runs and can be saved, restored and forked. Returns a session that
 * strata_session_free frees, or NULL. */
strata_session *strata_session_new(strata_model *model);

/* Holds all later runs of a session, and of its forks, to constraints, in place of those before. constraints is a JSON object:
 * deadline_ms, first_token_ms and token_ms for each run, memory for its keys and values in bytes, the format of its answers
 * (response_format, guided_regex, guided_choice, grammar), never_to_disk and never_off_machine. Returns 0, or -1 on errors. */
int strata_session_constrain(strata_session *session, const char *constraints);

/* Appends to a session's text. Control tokens in it are read as such. Returns 0, or -1 on errors. */
int strata_session_append(strata_session *session, const char *text);

/* Continues a session's text. request is the body of POST /v1/completions without a prompt, or NULL. What is generated
 * belongs to the session once the stream has been read to its end; if it fails or is canceled, the text stays as it was.
 * Returns a stream that strata_stream_free frees, or NULL. */
strata_stream *strata_session_run(strata_session *session, const char *request);

/* A session's text so far. Returns a text that strata_string_free frees, or NULL. */
char *strata_session_text(strata_session *session);

/* Another session with the same text; both share what was computed of it. Returns a session that strata_session_free
 * frees, or NULL. */
strata_session *strata_session_fork(strata_session *session);

/* A session as bytes, with what the cache holds of it where the model was opened with "sessions": true. Their number goes
 * to count. Returns bytes that strata_bytes_free frees, or NULL. */
uint8_t *strata_session_save(strata_session *session, size_t *count);

/* A session from bytes that strata_session_save returned, perhaps in another process; they need not be trusted. Returns a
 * session that strata_session_free frees, or NULL. */
strata_session *strata_session_restore(strata_model *model, const uint8_t *bytes, size_t count);

/* Frees a session. A stream of it runs on. NULL is allowed. */
void strata_session_free(strata_session *session);

/* ---- What the caller frees ---- */

/* Frees a text that a function of this library returned for the caller to free. NULL is allowed. */
void strata_string_free(char *text);

/* Frees tokens that strata_tokenize returned, with their count. NULL is allowed. */
void strata_tokens_free(uint32_t *tokens, size_t count);

/* Frees bytes that strata_session_save returned, with their count. NULL is allowed. */
void strata_bytes_free(uint8_t *bytes, size_t count);

#ifdef __cplusplus
}
#endif

#endif
