package dev.strata;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.util.Map;

/** A text that grows over many requests. */
public final class Session implements AutoCloseable {
    private final long handle;
    private final Cleaner.Cleanable cleanable;

    Session(long handle) {
        this.handle = handle;
        this.cleanable = Native.CLEANER.register(this, () -> Native.freeSession(handle));
    }

    /** Appends to the text. Control tokens in it are read as such. */
    public Session append(String text) {
        Native.append(handle, Native.bytes(text));
        return this;
    }

    /**
     * Holds all later runs, and those of forks, to constraints: deadline_ms, first_token_ms, token_ms, memory in bytes, a format
     * (response_format, guided_regex, guided_choice, grammar), never_to_disk, never_off_machine.
     */
    public Session constrain(Map<String, ?> constraints) {
        Native.constrain(handle, Native.bytes(Json.write(constraints)));
        Reference.reachabilityFence(this);
        return this;
    }

    /** Continues the text; the fields are those of /v1/completions. */
    public Answer run() {
        return new Answer(Map.of(), (body, tools) -> {
            JsonStream stream = new JsonStream(Native.run(handle, Native.bytes(Json.write(body))));
            Reference.reachabilityFence(this);
            return stream;
        });
    }

    /** The text so far. */
    public String text() {
        String text = Native.text(Native.text(handle));
        Reference.reachabilityFence(this);
        return text;
    }

    /** Another session with the same text; both share what was computed of it. */
    public Session fork() {
        Session fork = new Session(Native.fork(handle));
        Reference.reachabilityFence(this);
        return fork;
    }

    /** The session as bytes, for {@link Model#restore}. */
    public byte[] save() {
        byte[] saved = Native.save(handle);
        Reference.reachabilityFence(this);
        return saved;
    }

    @Override
    public void close() {
        cleanable.clean();
    }
}
