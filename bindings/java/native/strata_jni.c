/* strata.h for Java: the native methods of dev.strata.Native. Texts cross as bytes of UTF-8, because the JVM's own strings
 * are another encoding; handles cross as numbers. What fails throws. */
#include <jni.h>
#include <stdlib.h>
#include <strata.h>
#include <string.h>

#define NATIVE(result, name) JNIEXPORT result JNICALL Java_dev_strata_Native_##name

static jclass native_class;
static jmethodID failure;

JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM *vm, void *reserved) {
    (void)reserved;
    JNIEnv *env;
    if ((*vm)->GetEnv(vm, (void **)&env, JNI_VERSION_1_8) != JNI_OK)
        return JNI_ERR;
    jclass found = (*env)->FindClass(env, "dev/strata/Native");
    if (!found)
        return JNI_ERR;
    native_class = (*env)->NewGlobalRef(env, found);
    failure = (*env)->GetStaticMethodID(env, found, "failure", "([B[B[B)Ldev/strata/StrataException;");
    return native_class && failure ? JNI_VERSION_1_8 : JNI_ERR;
}

static jbyteArray bytes(JNIEnv *env, const void *data, size_t count) {
    jbyteArray made = (*env)->NewByteArray(env, (jsize)count);
    if (made)
        (*env)->SetByteArrayRegion(env, made, 0, (jsize)count, data);
    return made;
}

static jbyteArray text(JNIEnv *env, const char *given) {
    return given ? bytes(env, given, strlen(given)) : NULL;
}

/* Throws what the thread's latest call failed with. */
static void throw_last(JNIEnv *env) {
    jbyteArray code = text(env, strata_error_code()), message = text(env, strata_error_message());
    jobject thrown = (*env)->CallStaticObjectMethod(env, native_class, failure, code, message, text(env, strata_error_hint()));
    if (thrown)
        (*env)->Throw(env, thrown);
}

/* A text of the caller's with a zero at its end, which free() frees; NULL for null. */
static char *copied(JNIEnv *env, jbyteArray given) {
    if (!given)
        return NULL;
    jsize count = (*env)->GetArrayLength(env, given);
    char *copy = malloc((size_t)count + 1);
    if (copy) {
        (*env)->GetByteArrayRegion(env, given, 0, count, (jbyte *)copy);
        copy[count] = 0;
    }
    return copy;
}

/* A text that the library gave, as bytes. */
static jbyteArray taken(JNIEnv *env, char *given) {
    if (!given) {
        throw_last(env);
        return NULL;
    }
    jbyteArray made = text(env, given);
    strata_string_free(given);
    return made;
}

static jlong handle(JNIEnv *env, const void *given) {
    if (!given)
        throw_last(env);
    return (jlong)(intptr_t)given;
}

static void check(JNIEnv *env, int status) {
    if (status != 0)
        throw_last(env);
}

static strata_model *model_of(jlong number) { return (strata_model *)(intptr_t)number; }
static strata_stream *stream_of(jlong number) { return (strata_stream *)(intptr_t)number; }
static strata_session *session_of(jlong number) { return (strata_session *)(intptr_t)number; }

NATIVE(jint, abi)(JNIEnv *env, jclass class) {
    (void)env, (void)class;
    return (jint)strata_abi_version();
}

NATIVE(jbyteArray, features)(JNIEnv *env, jclass class) {
    (void)class;
    return text(env, strata_features());
}

NATIVE(void, require)(JNIEnv *env, jclass class, jbyteArray given) {
    (void)class;
    char *names = copied(env, given);
    int status = strata_require(names);
    free(names);
    check(env, status);
}

NATIVE(jlong, open)(JNIEnv *env, jclass class, jbyteArray model, jbyteArray options) {
    (void)class;
    char *name = copied(env, model), *json = copied(env, options);
    strata_model *opened = strata_open(name, json);
    free(name);
    free(json);
    return handle(env, opened);
}

NATIVE(jbyteArray, plan)(JNIEnv *env, jclass class, jbyteArray model, jbyteArray options) {
    (void)class;
    char *name = copied(env, model), *json = copied(env, options);
    char *plan = strata_plan(name, json);
    free(name);
    free(json);
    return taken(env, plan);
}

NATIVE(void, freeModel)(JNIEnv *env, jclass class, jlong model) {
    (void)env, (void)class;
    strata_model_free(model_of(model));
}

NATIVE(jbyteArray, info)(JNIEnv *env, jclass class, jlong model) {
    (void)class;
    return taken(env, strata_model_info(model_of(model)));
}

NATIVE(jbyteArray, adapters)(JNIEnv *env, jclass class, jlong model) {
    (void)class;
    return taken(env, strata_adapters(model_of(model)));
}

NATIVE(void, setAdapters)(JNIEnv *env, jclass class, jlong model, jbyteArray scales) {
    (void)class;
    char *json = copied(env, scales);
    int status = strata_adapters_set(model_of(model), json);
    free(json);
    check(env, status);
}

NATIVE(jintArray, tokenize)(JNIEnv *env, jclass class, jlong model, jbyteArray given) {
    (void)class;
    size_t count = 0;
    char *copy = copied(env, given);
    uint32_t *tokens = strata_tokenize(model_of(model), copy, (size_t)(*env)->GetArrayLength(env, given), &count);
    free(copy);
    if (!tokens) {
        throw_last(env);
        return NULL;
    }
    jintArray made = (*env)->NewIntArray(env, (jsize)count);
    if (made)
        (*env)->SetIntArrayRegion(env, made, 0, (jsize)count, (const jint *)tokens);
    strata_tokens_free(tokens, count);
    return made;
}

NATIVE(jbyteArray, detokenize)(JNIEnv *env, jclass class, jlong model, jintArray given) {
    (void)class;
    jsize count = (*env)->GetArrayLength(env, given);
    jint *tokens = (*env)->GetIntArrayElements(env, given, NULL);
    if (!tokens)
        return NULL;
    char *made = strata_detokenize(model_of(model), (const uint32_t *)tokens, (size_t)count);
    (*env)->ReleaseIntArrayElements(env, given, tokens, JNI_ABORT);
    return taken(env, made);
}

NATIVE(jlong, request)(JNIEnv *env, jclass class, jlong model, jbyteArray path, jbyteArray body) {
    (void)class;
    char *where = copied(env, path), *json = copied(env, body);
    strata_stream *stream = strata_request(model_of(model), where, json);
    free(where);
    free(json);
    return handle(env, stream);
}

NATIVE(jlong, chatTools)(JNIEnv *env, jclass class, jlong model, jbyteArray body) {
    (void)class;
    char *json = copied(env, body);
    strata_stream *stream = strata_chat_tools(model_of(model), json);
    free(json);
    return handle(env, stream);
}

NATIVE(void, toolResult)(JNIEnv *env, jclass class, jlong stream, jbyteArray id, jbyteArray result) {
    (void)class;
    char *name = copied(env, id), *said = copied(env, result);
    int status = strata_tool_result(stream_of(stream), name, said);
    free(name);
    free(said);
    check(env, status);
}

NATIVE(jint, next)(JNIEnv *env, jclass class, jlong stream, jlong milliseconds, jobjectArray place) {
    (void)class;
    char *document = NULL;
    int status = strata_next(stream_of(stream), milliseconds, &document);
    if (status == STRATA_ERROR)
        throw_last(env);
    else if (status == STRATA_DOCUMENT)
        (*env)->SetObjectArrayElement(env, place, 0, taken(env, document));
    return status;
}

NATIVE(void, cancel)(JNIEnv *env, jclass class, jlong stream) {
    (void)env, (void)class;
    strata_cancel(stream_of(stream));
}

NATIVE(void, freeStream)(JNIEnv *env, jclass class, jlong stream) {
    (void)env, (void)class;
    strata_stream_free(stream_of(stream));
}

NATIVE(jlong, session)(JNIEnv *env, jclass class, jlong model) {
    (void)class;
    return handle(env, strata_session_new(model_of(model)));
}

NATIVE(void, constrain)(JNIEnv *env, jclass class, jlong session, jbyteArray given) {
    (void)class;
    char *json = copied(env, given);
    int status = strata_session_constrain(session_of(session), json);
    free(json);
    check(env, status);
}

NATIVE(void, append)(JNIEnv *env, jclass class, jlong session, jbyteArray given) {
    (void)class;
    char *copy = copied(env, given);
    int status = strata_session_append(session_of(session), copy);
    free(copy);
    check(env, status);
}

NATIVE(jlong, run)(JNIEnv *env, jclass class, jlong session, jbyteArray body) {
    (void)class;
    char *json = copied(env, body);
    strata_stream *stream = strata_session_run(session_of(session), json);
    free(json);
    return handle(env, stream);
}

NATIVE(jbyteArray, text)(JNIEnv *env, jclass class, jlong session) {
    (void)class;
    return taken(env, strata_session_text(session_of(session)));
}

NATIVE(jlong, fork)(JNIEnv *env, jclass class, jlong session) {
    (void)class;
    return handle(env, strata_session_fork(session_of(session)));
}

NATIVE(jbyteArray, save)(JNIEnv *env, jclass class, jlong session) {
    (void)class;
    size_t count = 0;
    uint8_t *saved = strata_session_save(session_of(session), &count);
    if (!saved) {
        throw_last(env);
        return NULL;
    }
    jbyteArray made = bytes(env, saved, count);
    strata_bytes_free(saved, count);
    return made;
}

NATIVE(jlong, restore)(JNIEnv *env, jclass class, jlong model, jbyteArray saved) {
    (void)class;
    jsize count = (*env)->GetArrayLength(env, saved);
    jbyte *data = (*env)->GetByteArrayElements(env, saved, NULL);
    if (!data)
        return 0;
    strata_session *restored = strata_session_restore(model_of(model), (const uint8_t *)data, (size_t)count);
    (*env)->ReleaseByteArrayElements(env, saved, data, JNI_ABORT);
    return handle(env, restored);
}

NATIVE(void, freeSession)(JNIEnv *env, jclass class, jlong session) {
    (void)env, (void)class;
    strata_session_free(session_of(session));
}
