// Strata for C++17: models, streams and sessions that free themselves, over strata.h. Link with -lstrata_c.
//
//     strata::Model model("tale");
//     for (const std::string &chunk : model.chat(request)) …
//
// Requests and answers are JSON texts in OpenAI's shape: use any JSON library. strata::content takes the text out of a
// chunk or an answer without one. Every object may be used from any thread; a failed call throws strata::Error.
#ifndef STRATA_HPP
#define STRATA_HPP

#include "strata.h"

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strata {

// What went wrong: what() is a sentence, code() a name that stays the same from version to version, hint() may be empty.
class Error : public std::runtime_error {
public:
    Error(std::string code, const std::string &message, std::string hint)
        : std::runtime_error(message), code_(std::move(code)), hint_(std::move(hint)) {}

    const std::string &code() const noexcept { return code_; }
    const std::string &hint() const noexcept { return hint_; }
    bool canceled() const noexcept { return code_ == "canceled"; }

private:
    std::string code_;
    std::string hint_;
};

namespace detail {

inline std::string text(const char *given) { return given ? given : ""; }

// Throws the error of this thread's latest call.
[[noreturn]] inline void fail() {
    throw Error(text(strata_error_code()), text(strata_error_message()), text(strata_error_hint()));
}

template <class T> T *check(T *pointer) {
    if (!pointer)
        fail();
    return pointer;
}

// A text of the library's, freed once it is copied.
inline std::string take(char *given) {
    std::unique_ptr<char, decltype(&strata_string_free)> owned(check(given), strata_string_free);
    return owned.get();
}

struct Free {
    void operator()(strata_model *model) const noexcept { strata_model_free(model); }
    void operator()(strata_stream *stream) const noexcept { strata_stream_free(stream); }
    void operator()(strata_session *session) const noexcept { strata_session_free(session); }
};

template <class T> using Handle = std::unique_ptr<T, Free>;

inline void append_utf8(std::string &out, std::uint32_t code) {
    if (code < 0x80) {
        out += static_cast<char>(code);
    } else if (code < 0x800) {
        out += static_cast<char>(0xc0 | code >> 6);
        out += static_cast<char>(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        out += static_cast<char>(0xe0 | code >> 12);
        out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
        out += static_cast<char>(0x80 | (code & 0x3f));
    } else {
        out += static_cast<char>(0xf0 | code >> 18);
        out += static_cast<char>(0x80 | (code >> 12 & 0x3f));
        out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
        out += static_cast<char>(0x80 | (code & 0x3f));
    }
}

} // namespace detail

// A text as a JSON string, with its quotes.
inline std::string quote(std::string_view text) {
    static const char digits[] = "0123456789abcdef";
    std::string out = "\"";
    for (char c : text) {
        auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (byte < 0x20) {
            out += "\\u00";
            out += digits[byte >> 4];
            out += digits[byte & 15];
        } else {
            out += c;
        }
    }
    return out + '"';
}

// The string that is the first value of a key in a document; nothing if there is none. This is enough for "content", "text"
// and flat schemas; use a JSON library for all else.
inline std::optional<std::string> string_of(std::string_view document, std::string_view key) {
    std::string pattern = quote(key);
    auto at = document.find(pattern);
    for (; at != std::string_view::npos; at = document.find(pattern, at + 1)) {
        auto colon = document.find_first_not_of(" \t\n\r", at + pattern.size());
        if (colon == std::string_view::npos || document[colon] != ':')
            continue;
        auto value = document.find_first_not_of(" \t\n\r", colon + 1);
        if (value != std::string_view::npos && document[value] == '"') {
            at = value + 1;
            break;
        }
    }
    if (at == std::string_view::npos)
        return std::nullopt;
    std::string out;
    for (; at < document.size() && document[at] != '"'; at++) {
        if (document[at] != '\\' || at + 1 >= document.size()) {
            out += document[at];
            continue;
        }
        char escape = document[++at];
        auto hex = [&](std::size_t from) {
            std::string digits(document.substr(from, 4));
            return static_cast<std::uint32_t>(std::strtoul(digits.c_str(), nullptr, 16));
        };
        switch (escape) {
        case 'b': out += '\b'; break;
        case 'f': out += '\f'; break;
        case 'n': out += '\n'; break;
        case 'r': out += '\r'; break;
        case 't': out += '\t'; break;
        case 'u': {
            std::uint32_t code = hex(at + 1);
            at += 4;
            if (code >= 0xd800 && code < 0xdc00 && document.substr(at + 1, 2) == "\\u") {
                code = 0x10000 + ((code - 0xd800) << 10) + (hex(at + 3) - 0xdc00);
                at += 6;
            }
            detail::append_utf8(out, code);
            break;
        }
        default: out += escape;
        }
    }
    return out;
}

// The text of a chunk or of a whole chat; empty if it has none.
inline std::string content(std::string_view document) {
    return string_of(document, "content").value_or("");
}

// An answer on its way: a range of JSON documents, read once. Leaving the loop and destroying it cancels the request.
class Stream {
public:
    explicit Stream(strata_stream *stream) : handle_(detail::check(stream)) {}

    // Waits for the next document; nothing after the last.
    std::optional<std::string> next() { return take(-1); }

    // Waits for the next document so long at most; pending says whether none came in time.
    std::optional<std::string> next(std::chrono::milliseconds time, bool &pending) {
        return take(time.count(), &pending);
    }

    // The one document of a request that is not streamed.
    std::string whole() {
        auto document = next();
        if (!document)
            throw Error("internal", "the stream is empty", "");
        return *std::move(document);
    }

    // Cancels it, from any thread: whoever waits for it gets an Error that is canceled().
    void cancel() const noexcept { strata_cancel(handle_.get()); }

    // Gives the result of a tool call.
    void tool_result(const std::string &id, const std::string &result) const {
        if (strata_tool_result(handle_.get(), id.c_str(), result.c_str()) != 0)
            detail::fail();
    }

    // Readable while next() has something to say; see strata_stream_fd.
    int fd() const {
        int descriptor = strata_stream_fd(handle_.get());
        if (descriptor < 0)
            detail::fail();
        return descriptor;
    }

    strata_stream *get() const noexcept { return handle_.get(); }

    class iterator {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = std::string;
        using difference_type = std::ptrdiff_t;
        using pointer = const std::string *;
        using reference = const std::string &;

        iterator() = default;
        explicit iterator(Stream *stream) : stream_(stream) { ++*this; }
        reference operator*() const { return *document_; }
        pointer operator->() const { return &*document_; }
        iterator &operator++() {
            document_ = stream_->next();
            if (!document_)
                stream_ = nullptr;
            return *this;
        }
        friend bool operator==(const iterator &a, const iterator &b) { return a.stream_ == b.stream_; }
        friend bool operator!=(const iterator &a, const iterator &b) { return !(a == b); }

    private:
        Stream *stream_ = nullptr;
        std::optional<std::string> document_;
    };

    iterator begin() { return iterator(this); }
    iterator end() { return iterator(); }

private:
    std::optional<std::string> take(std::int64_t time, bool *pending = nullptr) {
        char *document = nullptr;
        int status = strata_next(handle_.get(), time, &document);
        if (status == STRATA_ERROR)
            detail::fail();
        if (pending)
            *pending = status == STRATA_PENDING;
        if (status != STRATA_DOCUMENT)
            return std::nullopt;
        return detail::take(document);
    }

    detail::Handle<strata_stream> handle_;
};

class Model;

// A text that grows over many requests.
class Session {
public:
    explicit Session(strata_session *session) : handle_(detail::check(session)) {}

    void append(const std::string &text) {
        if (strata_session_append(handle_.get(), text.c_str()) != 0)
            detail::fail();
    }

    // Holds all later runs, and those of forks, to constraints, a JSON object: see strata_session_constrain.
    void constrain(const std::string &constraints) {
        if (strata_session_constrain(handle_.get(), constraints.c_str()) != 0)
            detail::fail();
    }

    // Continues the text, as a body of /v1/completions without its prompt says.
    Stream run(const std::string &request = "{}") {
        return Stream(strata_session_run(handle_.get(), request.c_str()));
    }

    std::string text() const { return detail::take(strata_session_text(handle_.get())); }
    Session fork() const { return Session(strata_session_fork(handle_.get())); }

    std::vector<std::uint8_t> save() const {
        std::size_t count = 0;
        std::uint8_t *bytes = detail::check(strata_session_save(handle_.get(), &count));
        std::vector<std::uint8_t> saved(bytes, bytes + count);
        strata_bytes_free(bytes, count);
        return saved;
    }

private:
    detail::Handle<strata_session> handle_;
};

// A model in memory. Copies lead to the same one.
class Model {
public:
    // Opens a model: a file, a folder, a name in the store, or "tale". Options are a JSON object: see strata_open.
    explicit Model(const std::string &model, const std::string &options = "{}") {
        if (strata_abi_version() != STRATA_ABI_VERSION)
            throw Error("unsupported", "the library and strata.h are of different versions", "");
        if (strata_require("chat completions constraints embeddings plan sessions tokenize tools") != 0)
            detail::fail();
        handle_.reset(detail::check(strata_open(model.c_str(), options.c_str())));
    }

    Model(const Model &other) : handle_(detail::check(strata_model_clone(other.handle_.get()))) {}
    Model(Model &&) noexcept = default;
    Model &operator=(Model other) noexcept {
        handle_.swap(other.handle_);
        return *this;
    }

    // What a model would take, as JSON, without loading it.
    static std::string plan(const std::string &model, const std::string &options = "{}") {
        return detail::take(strata_plan(model.c_str(), options.c_str()));
    }

    // What the library can do: names with a space between them.
    static std::string features() { return strata_features(); }

    // Bodies of OpenAI's /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/rerank, or of any other route.
    Stream chat(const std::string &request) const { return Stream(strata_chat(get(), request.c_str())); }
    Stream complete(const std::string &request) const { return Stream(strata_complete(get(), request.c_str())); }
    // A chat whose stream goes on once the calls that it tells of have results: see strata_chat_tools.
    Stream chat_tools(const std::string &request) const { return Stream(strata_chat_tools(get(), request.c_str())); }
    Stream embed(const std::string &request) const { return Stream(strata_embed(get(), request.c_str())); }
    Stream rerank(const std::string &request) const { return Stream(strata_rerank(get(), request.c_str())); }
    // The fields of /v1/audio/transcriptions; file is a path, or the file's bytes as "data:;base64,…".
    Stream transcribe(const std::string &request) const { return Stream(strata_transcribe(get(), request.c_str())); }
    Stream request(const std::string &path, const std::string &body) const {
        return Stream(strata_request(get(), path.c_str(), body.c_str()));
    }

    std::vector<std::uint32_t> tokenize(std::string_view text) const {
        std::size_t count = 0;
        std::uint32_t *tokens = detail::check(strata_tokenize(get(), text.data(), text.size(), &count));
        std::vector<std::uint32_t> all(tokens, tokens + count);
        strata_tokens_free(tokens, count);
        return all;
    }

    std::string detokenize(const std::vector<std::uint32_t> &tokens) const {
        return detail::take(strata_detokenize(get(), tokens.data(), tokens.size()));
    }

    std::string info() const { return detail::take(strata_model_info(get())); }
    std::string adapters() const { return detail::take(strata_adapters(get())); }
    void set_adapters(const std::string &scales) const {
        if (strata_adapters_set(get(), scales.c_str()) != 0)
            detail::fail();
    }

    Session session() const { return Session(strata_session_new(get())); }
    Session restore(const std::vector<std::uint8_t> &bytes) const {
        return Session(strata_session_restore(get(), bytes.data(), bytes.size()));
    }

    strata_model *get() const noexcept { return handle_.get(); }

private:
    detail::Handle<strata_model> handle_;
};

} // namespace strata

#endif
