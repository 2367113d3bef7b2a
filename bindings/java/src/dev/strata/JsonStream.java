package dev.strata;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.util.Iterator;
import java.util.Map;
import java.util.NoSuchElementException;

/** The documents of a request, as maps. Closing it cancels the request. */
public final class JsonStream implements Iterable<Map<String, Object>>, AutoCloseable {
    private final long handle;
    private final Cleaner.Cleanable cleanable;

    JsonStream(long handle) {
        this.handle = handle;
        this.cleanable = Native.CLEANER.register(this, () -> Native.freeStream(handle));
    }

    /** Waits for the next document; null after the last. */
    public Map<String, Object> next() {
        return next(-1);
    }

    /** Waits so many milliseconds at most, without limit if it is -1: an empty map if none came in time. */
    public Map<String, Object> next(long milliseconds) {
        byte[][] document = new byte[1][];
        try {
            return switch (Native.next(handle, milliseconds, document)) {
                case Native.DOCUMENT -> Json.object(Native.text(document[0]));
                case Native.PENDING -> Map.of();
                default -> null;
            };
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    @Override
    public Iterator<Map<String, Object>> iterator() {
        return new Iterator<>() {
            private Map<String, Object> ahead;
            private boolean over;

            @Override
            public boolean hasNext() {
                if (ahead == null && !over) {
                    ahead = JsonStream.this.next();
                    over = ahead == null;
                }
                return !over;
            }

            @Override
            public Map<String, Object> next() {
                if (!hasNext()) {
                    throw new NoSuchElementException();
                }
                Map<String, Object> given = ahead;
                ahead = null;
                return given;
            }
        };
    }

    /** Cancels the request, from any thread, at any time. */
    public void cancel() {
        Native.cancel(handle);
        Reference.reachabilityFence(this);
    }

    /** Gives the result of a tool call. */
    public void toolResult(String id, String result) {
        Native.toolResult(handle, Native.bytes(id), Native.bytes(result));
        Reference.reachabilityFence(this);
    }

    @Override
    public void close() {
        cleanable.clean();
    }
}
