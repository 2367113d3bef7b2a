/* Every function of strata.h, with good and bad arguments. Says `feature NAME` for each thing that it has seen work.
 * `cargo xtask test-bindings c` sets what is expected in the environment. */
#define _POSIX_C_SOURCE 200809L
#include "strata.h"
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(holds)                                                                             \
    do {                                                                                         \
        if (!(holds)) {                                                                          \
            const char *message = strata_error_message();                                        \
            fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #holds, message ? message : "-");    \
            exit(1);                                                                             \
        }                                                                                        \
    } while (0)

#define FAILS(call, code)                                                                        \
    do {                                                                                         \
        CHECK(!(call));                                                                          \
        CHECK(strata_error_code() && strcmp(strata_error_code(), code) == 0);                    \
        CHECK(strata_error_message()[0]);                                                        \
    } while (0)

static const char *STORY = "{\"messages\":[{\"role\":\"user\",\"content\":\"Tell me a story about a fox.\"}],"
                           "\"temperature\":0,\"max_tokens\":32%s}";
static const char *LONG = "{\"prompt\":\"Once upon a time\",\"temperature\":0,\"max_tokens\":4000,\"ignore_eos\":true,"
                          "\"stream\":true}";

/* The string after "key":" with its escapes undone as far as stories have any; the caller frees it. */
static char *string_of(const char *json, const char *key) {
    char pattern[64];
    snprintf(pattern, sizeof pattern, "\"%s\":\"", key);
    const char *at = strstr(json, pattern);
    if (!at)
        return NULL;
    at += strlen(pattern);
    char *text = malloc(strlen(at) + 1), *end = text;
    for (; *at && *at != '"'; at++) {
        if (*at == '\\') {
            at++;
            *end++ = *at == 'n' ? '\n' : *at;
        } else {
            *end++ = *at;
        }
    }
    *end = 0;
    return text;
}

/* The one document of a stream. */
static char *whole(strata_stream *stream) {
    char *document = NULL, *more = NULL;
    CHECK(stream);
    CHECK(strata_next(stream, -1, &document) == STRATA_DOCUMENT);
    CHECK(document);
    CHECK(strata_next(stream, -1, &more) == STRATA_END && !more);
    strata_stream_free(stream);
    return document;
}

static void feature(const char *name) { printf("feature %s\n", name); }

static void answers(strata_model *model, const char *expected) {
    char request[512];
    snprintf(request, sizeof request, STORY, "");
    char *document = whole(strata_chat(model, request));
    char *text = string_of(document, "content");
    CHECK(text && strcmp(text, expected) == 0);
    free(text);
    strata_string_free(document);
    feature("greedy");

    /* The same, piece by piece, woken by the descriptor. */
    snprintf(request, sizeof request, STORY, ",\"stream\":true");
    strata_stream *stream = strata_chat(model, request);
    CHECK(stream);
    struct pollfd waiting = {strata_stream_fd(stream), POLLIN, 0};
    CHECK(waiting.fd >= 0 && strata_stream_fd(stream) == waiting.fd);
    char *all = calloc(1, 4096);
    int pieces = 0, status = STRATA_PENDING;
    while (status != STRATA_END) {
        CHECK(poll(&waiting, 1, 60000) == 1);
        while ((status = strata_next(stream, 0, &document)) == STRATA_DOCUMENT) {
            text = string_of(document, "content");
            if (text) {
                strcat(all, text);
                pieces++;
            }
            free(text);
            strata_string_free(document);
        }
        CHECK(status != STRATA_ERROR);
    }
    CHECK(strcmp(all, expected) == 0 && pieces > 5);
    free(all);
    /* The end stays the end, and the descriptor readable. */
    CHECK(strata_next(stream, 0, NULL) == STRATA_END);
    CHECK(poll(&waiting, 1, 0) == 1);
    strata_cancel(stream);
    CHECK(strata_next(stream, 0, NULL) == STRATA_END);
    strata_stream_free(stream);
    feature("stream");
    FAILS(strata_next(stream, 0, &document) != STRATA_ERROR, "invalid_argument");
    CHECK(strstr(strata_error_message(), "was freed"));
    strata_stream_free(stream);
    CHECK(strcmp(strata_error_code(), "invalid_argument") == 0);
    FAILS(strata_next((strata_stream *)model, 0, NULL) != STRATA_ERROR, "invalid_argument");
}

static void *cancel_soon(void *stream) {
    struct timespec moment = {0, 20000000};
    nanosleep(&moment, NULL);
    strata_cancel(stream);
    return NULL;
}

static void cancels(strata_model *model) {
    char *document;
    strata_stream *stream = strata_complete(model, LONG);
    CHECK(stream);
    CHECK(strata_next(stream, -1, &document) == STRATA_DOCUMENT);
    strata_string_free(document);
    pthread_t other;
    CHECK(pthread_create(&other, NULL, cancel_soon, stream) == 0);
    int status;
    while ((status = strata_next(stream, -1, NULL)) == STRATA_DOCUMENT) {
    }
    CHECK(status == STRATA_ERROR && strcmp(strata_error_code(), "canceled") == 0);
    pthread_join(other, NULL);
    strata_stream_free(stream);
    CHECK(strcmp(strata_error_code(), "canceled") == 0); /* Freeing something keeps the error. */
    /* A long prompt, canceled while it is computed: the next request does not wait for it. */
    size_t words = 3500;
    char *request = malloc(words * 6 + 200), *end = request;
    end += sprintf(end, "{\"prompt\":\"");
    for (size_t i = 0; i < words; i++)
        end += sprintf(end, "%s ", i % 3 ? "fox" : "owl");
    sprintf(end, "\",\"max_tokens\":1}");
    stream = strata_complete(model, request);
    free(request);
    CHECK(strata_next(stream, 30, NULL) == STRATA_PENDING);
    strata_cancel(stream);
    CHECK(strata_next(stream, -1, NULL) == STRATA_ERROR);
    strata_stream_free(stream);
    /* A stream keeps its model. */
    strata_model *again = strata_model_clone(model);
    stream = strata_complete(again, "{\"prompt\":\"Once\",\"max_tokens\":4}");
    strata_model_free(again);
    FAILS(strata_model_info(again), "invalid_argument");
    strata_string_free(whole(stream));
    feature("cancel");
}

static void schemas(strata_model *model) {
    struct {
        char animal[8];
        int age;
    } hero = {"", 0};
    char *document = whole(strata_chat(
        model, "{\"messages\":[{\"role\":\"user\",\"content\":\"Who?\"}],\"temperature\":0,\"max_tokens\":60,"
               "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"hero\",\"schema\":{\"type\":\"object\","
               "\"properties\":{\"animal\":{\"enum\":[\"fox\",\"owl\"]},\"age\":{\"type\":\"integer\",\"minimum\":1,"
               "\"maximum\":9}},\"required\":[\"animal\",\"age\"],\"additionalProperties\":false}}}}"));
    char *content = string_of(document, "content");
    CHECK(content && sscanf(content, " { \"animal\" : \"%7[a-z]\" , \"age\" : %d }", hero.animal, &hero.age) == 2);
    CHECK(strcmp(hero.animal, "fox") == 0 || strcmp(hero.animal, "owl") == 0);
    CHECK(hero.age >= 1 && hero.age <= 9);
    free(content);
    strata_string_free(document);
    feature("schema");
}

static void tools(strata_model *model) {
    strata_stream *stream = strata_chat_tools(
        model, "{\"messages\":[{\"role\":\"user\",\"content\":\"Is it warm in Oslo?\"}],\"temperature\":0,\"max_tokens\":60,"
               "\"parallel_tool_calls\":false,\"tool_choice\":\"required\",\"tools\":[{\"type\":\"function\",\"function\":{"
               "\"name\":\"weather\",\"strict\":true,\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"enum\":"
               "[\"Bern\",\"Oslo\"]}},\"required\":[\"city\"],\"additionalProperties\":false}}}]}");
    CHECK(stream);
    int called = 0, status;
    char *document, *last = NULL;
    while ((status = strata_next(stream, -1, &document)) == STRATA_DOCUMENT) {
        char *object = string_of(document, "object");
        if (object && strcmp(object, "tool.calls") == 0) {
            char *id = string_of(document, "id"), *city = string_of(document, "city");
            CHECK(city && (strcmp(city, "Bern") == 0 || strcmp(city, "Oslo") == 0));
            FAILS(strata_tool_result(stream, "nobody", "x") == 0, "invalid_argument");
            CHECK(strata_tool_result(stream, id, "18 degrees") == 0);
            free(id);
            free(city);
            called++;
        }
        free(object);
        strata_string_free(last);
        last = document;
    }
    CHECK(status == STRATA_END && called == 1);
    FAILS(strata_tool_result(stream, "nobody", "x") == 0, "invalid_argument");
    char *text = string_of(last, "content");
    CHECK(text && text[0]);
    free(text);
    strata_string_free(last);
    strata_stream_free(stream);
    feature("tools");
}

static char *completed(strata_stream *stream) {
    char *document = whole(stream), *text = string_of(document, "text");
    strata_string_free(document);
    CHECK(text);
    return text;
}

static void adapters(const char *one, const char *two) {
    char options[4096];
    snprintf(options, sizeof options, "{\"adapters\":[\"%s\",{\"path\":\"%s\",\"scale\":0}]}", one, two);
    strata_model *model = strata_open("tale", options);
    CHECK(model);
    const char *requests[] = {
        "{\"prompt\":\"Once upon a time\",\"temperature\":0,\"max_tokens\":16}",
        "{\"prompt\":\"Once upon a time\",\"temperature\":0,\"max_tokens\":16,\"lora\":[{\"id\":0,\"scale\":1}]}",
        "{\"prompt\":\"Once upon a time\",\"temperature\":0,\"max_tokens\":16,\"lora\":[{\"id\":1,\"scale\":1}]}",
    };
    char *alone[3];
    strata_stream *together[3];
    for (int i = 0; i < 3; i++)
        alone[i] = completed(strata_complete(model, requests[i]));
    CHECK(strcmp(alone[0], alone[1]) && strcmp(alone[1], alone[2]) && strcmp(alone[0], alone[2]));
    for (int i = 0; i < 3; i++)
        together[i] = strata_complete(model, requests[i]);
    for (int i = 2; i >= 0; i--) {
        char *text = completed(together[i]);
        CHECK(strcmp(text, alone[i]) == 0);
        free(text);
    }
    CHECK(strata_adapters_set(model, "[{\"id\":1,\"scale\":1}]") == 0);
    char *text = completed(strata_complete(model, requests[0]));
    CHECK(strcmp(text, alone[2]) == 0);
    free(text);
    for (int i = 0; i < 3; i++)
        free(alone[i]);
    strata_model_free(model);
    feature("adapters");
}

static void others(strata_model *model) {
    size_t count = 0;
    uint32_t *tokens = strata_tokenize(model, "Once upon a time", 16, &count);
    CHECK(tokens && count > 3);
    char *text = strata_detokenize(model, tokens, count);
    CHECK(text && strstr(text, "Once upon a time"));
    strata_string_free(text);
    strata_tokens_free(tokens, count);
    tokens = strata_tokenize(model, "", 0, &count);
    CHECK(tokens);
    strata_tokens_free(tokens, count);
    feature("tokenize");
    FAILS(strata_tokenize(model, "\xff", 1, &count), "invalid_argument");
    FAILS(strata_tokenize(model, "a", 1, NULL), "invalid_argument");
    FAILS(strata_tokenize(NULL, "a", 1, &count), "invalid_argument");

    char *document = whole(strata_embed(model, "{\"input\":[\"a fox and an owl\",\"an owl\"]}"));
    const char *vector = strstr(document, "\"embedding\":"), *expected = getenv("STRATA_EMBEDDING");
    CHECK(vector && expected && strncmp(vector + 12, expected, strlen(expected)) == 0);
    CHECK(strstr(document, "\"index\":1"));
    strata_string_free(document);
    feature("embeddings");
    document = whole(strata_request(model, "/v1/models", NULL));
    CHECK(strstr(document, "\"object\":\"list\""));
    strata_string_free(document);
    FAILS(strata_request(model, "/v1/nothing", "{}"), "not_found");
    FAILS(strata_chat(model, "{"), "invalid_argument");
    FAILS(strata_chat(model, NULL), "invalid_argument");
    FAILS(strata_chat(model, "{\"messages\":[],\"tempreature\":1}"), "invalid_argument");
    /* What only the model can tell comes with the stream. */
    strata_stream *stream = strata_rerank(model, "{\"query\":\"a\",\"documents\":[\"b\"]}");
    CHECK(stream && strata_next(stream, -1, &document) == STRATA_ERROR && !document);
    CHECK(strcmp(strata_error_code(), "unsupported") == 0);
    strata_stream_free(stream);
    FAILS(strata_transcribe(model, "{\"file\":\"a.wav\"}"), "unsupported");
    stream = strata_request(model, "/v1/responses", "{\"input\":\"a\",\"background\":true}");
    CHECK(stream && strata_next(stream, -1, &document) == STRATA_ERROR);
    strata_stream_free(stream);

    text = strata_model_info(model);
    CHECK(text && strstr(text, "\"name\":\"tale\""));
    strata_string_free(text);
    text = strata_adapters(model);
    CHECK(text && strcmp(text, "[]") == 0);
    strata_string_free(text);
    CHECK(strata_adapters_set(model, "[]") == 0);
    FAILS(strata_adapters_set(model, "[{\"id\":3}]") != -1, "invalid_argument");
    text = strata_plan("tale", "{\"context\":512}");
    CHECK(text && strstr(text, "\"fits\":true") && strstr(text, "\"context\":512"));
    strata_string_free(text);
    feature("plan");
    FAILS(strata_plan("nowhere.gguf", NULL), "not_found");
    FAILS(strata_open("tale", "{\"memory\":\"1k\"}"), "out_of_memory");
    FAILS(strata_open(NULL, NULL), "invalid_argument");
    FAILS(strata_open("tale", "{\"contxt\":1}"), "invalid_argument");
    CHECK(strstr(strata_features(), "embeddings") && strata_version()[0]);
    CHECK(strata_abi_version() == STRATA_ABI_VERSION && !strata_error_hint());
    CHECK(strata_require("chat  tools constraints image_urls peers") == 0 && strata_require("") == 0);
    FAILS(strata_require("chat telepathy") == 0, "unsupported");
    FAILS(strata_require(NULL) == 0, "invalid_argument");
    feature("errors");
}

static void sessions(strata_model *model) {
    const char *few = "{\"max_tokens\":6,\"temperature\":0}";
    strata_session *session = strata_session_new(model);
    CHECK(session && strata_session_append(session, "Once upon a time") == 0);
    strata_session *fork = strata_session_fork(session);
    char *first = completed(strata_session_run(session, few)), *again = completed(strata_session_run(fork, few));
    CHECK(first[0] && strcmp(first, again) == 0);
    char *text = strata_session_text(session);
    CHECK(text && strncmp(text, "Once upon a time", 16) == 0 && strstr(text, first));
    strata_string_free(text);
    free(again);
    /* It runs once at a time, and a canceled run leaves no trace. */
    char *before = strata_session_text(session);
    strata_stream *stream = strata_session_run(session, "{\"max_tokens\":2000,\"ignore_eos\":true,\"stream\":true}");
    CHECK(stream && strata_next(stream, -1, NULL) == STRATA_DOCUMENT);
    FAILS(strata_session_append(session, "x") == 0, "invalid_argument");
    FAILS(strata_session_run(session, few), "invalid_argument");
    strata_stream_free(stream);
    text = strata_session_text(session);
    CHECK(strcmp(text, before) == 0);
    strata_string_free(text);
    strata_string_free(before);
    FAILS(strata_session_run(session, "{\"prompt\":\"x\"}"), "invalid_argument");
    FAILS(strata_session_run(session, "[]"), "invalid_argument");
    /* Saved and restored it goes on alike. */
    size_t count = 0;
    uint8_t *bytes = strata_session_save(fork, &count);
    CHECK(bytes && count > 0);
    strata_session *restored = strata_session_restore(model, bytes, count);
    CHECK(restored);
    char *a = completed(strata_session_run(fork, few)), *b = completed(strata_session_run(restored, few));
    CHECK(strcmp(a, b) == 0);
    FAILS(strata_session_restore(model, bytes, 3), "invalid_argument");
    strata_bytes_free(bytes, count);
    free(a), free(b), free(first);
    strata_session_free(session), strata_session_free(fork), strata_session_free(restored);
    FAILS(strata_session_text(session), "invalid_argument");
    feature("sessions");
}

static void constraints(strata_model *model) {
    const char *few = "{\"max_tokens\":6,\"temperature\":0}";
    strata_session *session = strata_session_new(model);
    CHECK(strata_session_append(session, "Once upon a time") == 0);
    CHECK(strata_session_constrain(session, "{\"guided_regex\":\"(yes|no)\",\"never_to_disk\":true}") == 0);
    strata_session *fork = strata_session_fork(session);
    char *said = completed(strata_session_run(session, few)), *again = completed(strata_session_run(fork, few));
    CHECK((!strcmp(said, "yes") || !strcmp(said, "no")) && !strcmp(said, again));
    size_t count = 0;
    FAILS(strata_session_save(fork, &count) != NULL, "invalid_argument");
    FAILS(strata_session_run(session, "{\"guided_regex\":\"a\"}") != NULL, "invalid_argument");
    FAILS(strata_session_constrain(session, "{\"colour\":\"red\"}") == 0, "invalid_argument");
    FAILS(strata_session_constrain(session, NULL) == 0, "invalid_argument");
    /* Too little memory for what stands there already; then none of it holds any more. */
    CHECK(strata_session_constrain(session, "{\"memory\":16}") == 0);
    strata_stream *stream = strata_session_run(session, few);
    CHECK(strata_next(stream, -1, NULL) == STRATA_ERROR);
    strata_stream_free(stream);
    CHECK(strata_session_constrain(session, "{}") == 0);
    strata_bytes_free(strata_session_save(session, &count), count);
    CHECK(!strata_error_code() && count > 0);
    free(said), free(again);
    strata_session_free(session), strata_session_free(fork);
    feature("constraints");
}

/* A message with an image, seen through a projector; and refused by a model that has none. */
static void images(void) {
    const char *file = getenv("STRATA_SEEING_MODEL"), *eyes = getenv("STRATA_EYES"), *seen = getenv("STRATA_SEEN");
    const char *question = getenv("STRATA_QUESTION");
    CHECK(file && eyes && seen && question);
    char options[4096];
    CHECK(snprintf(options, sizeof options, "{\"projector\":\"%s\"}", eyes) < (int)sizeof options);
    strata_model *model = strata_open(file, options), *blind = strata_open(file, NULL);
    CHECK(model && blind);
    char *document = whole(strata_chat(model, question));
    CHECK(strstr(document, seen));
    strata_string_free(document);
    strata_stream *refused = strata_chat(blind, question);
    CHECK(refused);
    document = NULL;
    CHECK(strata_next(refused, -1, &document) == STRATA_ERROR && !document);
    CHECK(strstr(strata_error_message(), "cannot see"));
    strata_stream_free(refused);
    strata_model_free(model);
    strata_model_free(blind);
    feature("images");
}

/* An audio file as text: at once and piece by piece, from its path and from its bytes. */
static void speech(void) {
    const char *file = getenv("STRATA_HEARING_MODEL"), *sound = getenv("STRATA_SOUND"), *heard = getenv("STRATA_HEARD");
    CHECK(file && sound && heard && strstr(strata_features(), "transcriptions"));
    char request[4096], *document, *text = string_of(heard, "text");
    strata_model *model = strata_open(file, "{\"threads\":2}");
    CHECK(model && text && text[0]);
    CHECK(snprintf(request, sizeof request, "{\"file\":\"%s\",\"response_format\":\"verbose_json\"}", sound) > 0);
    document = whole(strata_transcribe(model, request));
    /* What it took follows. */
    CHECK(strncmp(document, heard, strlen(heard) - 1) == 0 && strstr(document, "\"usage\""));
    strata_string_free(document);
    snprintf(request, sizeof request, "{\"file\":\"%s\",\"response_format\":\"srt\"}", sound);
    document = whole(strata_transcribe(model, request));
    CHECK(strstr(document, "{\"text\":\"1\\n00:00:00") == document);
    strata_string_free(document);
    snprintf(request, sizeof request, "{\"file\":\"%s\",\"stream\":true}", sound);
    strata_stream *stream = strata_transcribe(model, request);
    char *last = NULL;
    int pieces = 0, status;
    CHECK(stream);
    while ((status = strata_next(stream, -1, &document)) == STRATA_DOCUMENT) {
        pieces++;
        strata_string_free(last);
        last = document;
    }
    CHECK(status == STRATA_END && pieces > 1 && strstr(last, "transcript.text.done"));
    char *again = string_of(last, "text");
    CHECK(again && strcmp(again, text) == 0);
    free(again);
    strata_string_free(last);
    strata_stream_free(stream);
    free(text);
    /* A file of 8 bits and one sample, which is too short for a word. */
    document = whole(strata_transcribe(model, "{\"file\":\"data:audio/wav;base64,UklGRiUAAABXQVZFZm10IBAAAAABAAEAgD4AAIA+"
                                              "AAABAAgAZGF0YQEAAACA\",\"language\":\"en\"}"));
    CHECK(strstr(document, "\"text\":"));
    strata_string_free(document);
    const char *bad[][2] = {{"{\"file\":\"/nowhere.wav\"}", "not_found"},
                            {"{\"file\":\"data:;base64,!\"}", "invalid_argument"},
                            {"{\"file\":\"data:;base64,bm8gc291bmQ=\"}", "invalid_argument"}};
    for (int i = 0; i < 3; i++) {
        stream = strata_transcribe(model, bad[i][0]);
        CHECK(stream && strata_next(stream, -1, &document) == STRATA_ERROR && !document);
        CHECK(strcmp(strata_error_code(), bad[i][1]) == 0);
        strata_stream_free(stream);
    }
    FAILS(strata_transcribe(model, "{}"), "invalid_argument");
    FAILS(strata_transcribe(model, "{\"file\":\"a.wav\",\"beams\":2}"), "invalid_argument");
    FAILS(strata_transcribe(model, "{\"file\":\"a.wav\",\"prompt\":{}}"), "invalid_argument");
    FAILS(strata_transcribe(model, "[]"), "invalid_argument");
    FAILS(strata_chat(model, "{\"messages\":[]}"), "unsupported");
    FAILS(strata_session_new(model), "unsupported");
    FAILS(strata_open(file, "{\"context\":100}"), "invalid_argument");
    document = strata_model_info(model);
    CHECK(document && strstr(document, "\"transcription\""));
    strata_string_free(document);
    /* A stream that is canceled ends at once; one that is freed keeps nobody waiting. */
    for (int i = 0; i < 8; i++) {
        stream = strata_transcribe(model, request);
        strata_cancel(stream);
        CHECK(strata_next(stream, -1, NULL) == STRATA_ERROR && strcmp(strata_error_code(), "canceled") == 0);
        strata_stream_free(stream);
    }
    strata_model_free(model);
    feature("speech");
}

int main(void) {
    CHECK(getenv("STRATA_STORY") && getenv("STRATA_ADAPTER_ONE") && getenv("STRATA_ADAPTER_TWO"));
    strata_stream *load = strata_load("tale", "{\"sessions\":true,\"context\":4096}");
    CHECK(load);
    int documents = 0, status;
    while ((status = strata_next(load, -1, NULL)) == STRATA_DOCUMENT)
        documents++;
    CHECK(status == STRATA_END && documents > 0);
    strata_model *model = strata_stream_model(load);
    CHECK(model);
    FAILS(strata_stream_model(load), "invalid_argument");
    strata_stream_free(load);
    answers(model, getenv("STRATA_STORY"));
    cancels(model);
    schemas(model);
    tools(model);
    adapters(getenv("STRATA_ADAPTER_ONE"), getenv("STRATA_ADAPTER_TWO"));
    others(model);
    sessions(model);
    constraints(model);
    images();
    speech();
    load = strata_load("tale", NULL);
    strata_stream_free(load);
    strata_model_free(model);
    strata_model_free(NULL);
    strata_stream_free(NULL);
    strata_session_free(NULL);
    strata_string_free(NULL);
    return 0;
}
