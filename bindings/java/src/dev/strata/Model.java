package dev.strata;

import java.lang.ref.Cleaner;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** A model in memory. Any number of threads may ask it at once. */
public final class Model implements AutoCloseable {
    private final long handle;
    private final Cleaner.Cleanable cleanable;
    private volatile boolean closed;

    Model(long handle) {
        this.handle = handle;
        this.cleanable = Native.CLEANER.register(this, () -> Native.freeModel(handle));
    }

    private long handle() {
        if (closed) {
            throw new StrataException("closed", "the model was closed", null);
        }
        return handle;
    }

    static List<Map<String, Object>> loras(Map<Integer, Double> scales) {
        return scales.entrySet().stream()
                .map(one -> Map.<String, Object>of("id", one.getKey(), "scale", one.getValue()))
                .toList();
    }

    /** Asks what {@code strata serve} is asked at a path; a body of null is a GET. */
    public JsonStream request(String path, Object body) {
        byte[] json = body == null ? null : Native.bytes(Json.write(body));
        return new JsonStream(Native.request(handle(), Native.bytes(path), json));
    }

    /** Asks for an answer to a message. */
    public Answer chat(String message) {
        return chat(List.of(Map.of("role", "user", "content", message)));
    }

    /** Asks for the next message of a conversation. All other fields are those of /v1/chat/completions. */
    public Answer chat(List<Map<String, Object>> messages) {
        return new Answer(Map.of("messages", messages), (body, tools) -> tools
                ? new JsonStream(Native.chatTools(handle(), Native.bytes(Json.write(body))))
                : request("/v1/chat/completions", body));
    }

    /** Continues a text as it is. The fields are those of /v1/completions. */
    public Answer complete(String prompt) {
        return new Answer(Map.of("prompt", prompt), (body, tools) -> request("/v1/completions", body));
    }

    /** A vector of length 1 for each text. */
    public float[][] embed(String... texts) {
        Map<String, Object> body = Map.of("input", List.of(texts), "encoding_format", "base64");
        try (JsonStream stream = request("/v1/embeddings", body)) {
            List<?> data = (List<?>) stream.next().get("data");
            return data.stream().map(one -> floats((String) ((Map<?, ?>) one).get("embedding"))).toArray(float[][]::new);
        }
    }

    /** What is said in an audio file, with a model for speech. */
    public Map<String, Object> transcribe(String file) {
        return transcribe(file, Map.of());
    }

    /** What is said in an audio file, with a model for speech. The fields are those of /v1/audio/transcriptions. */
    public Map<String, Object> transcribe(String file, Map<String, Object> fields) {
        Map<String, Object> body = new HashMap<>(fields);
        body.put("file", file);
        try (JsonStream stream = request("/v1/audio/transcriptions", body)) {
            return stream.next();
        }
    }

    private static float[] floats(String base64) {
        ByteBuffer packed = ByteBuffer.wrap(Base64.getDecoder().decode(base64)).order(ByteOrder.LITTLE_ENDIAN);
        float[] floats = new float[packed.remaining() / Float.BYTES];
        packed.asFloatBuffer().get(floats);
        return floats;
    }

    /** The tokens of a text, with those that the model wants around one. */
    public int[] tokenize(String text) {
        return Native.tokenize(handle(), Native.bytes(text));
    }

    /** The text of tokens. */
    public String detokenize(int[] tokens) {
        return Native.text(Native.detokenize(handle(), tokens));
    }

    /** What is known of the model. */
    public Map<String, Object> info() {
        return Json.object(Native.text(Native.info(handle())));
    }

    /** The adapters that it was opened with: id, path and scale. */
    public List<?> adapters() {
        return (List<?>) Json.parse(Native.text(Native.adapters(handle())));
    }

    /** Sets the strength of adapters for requests that name none; those that are not listed are left out. */
    public void setAdapters(Map<Integer, Double> scales) {
        Native.setAdapters(handle(), Native.bytes(Json.write(loras(scales))));
    }

    /** An empty session. */
    public Session session() {
        return new Session(Native.session(handle()));
    }

    /** A session that was saved, perhaps by another process. */
    public Session restore(byte[] saved) {
        return new Session(Native.restore(handle(), saved));
    }

    /** Lets go of the model. It leaves memory when its last stream and session are gone too. */
    @Override
    public void close() {
        closed = true;
        cleanable.clean();
    }
}
