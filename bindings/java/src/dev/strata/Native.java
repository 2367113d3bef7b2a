package dev.strata;

import java.io.IOException;
import java.io.InputStream;
import java.lang.ref.Cleaner;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;

/** The functions of strata.h. Texts are bytes of UTF-8, handles are numbers; what fails throws {@link StrataException}. */
final class Native {
    private static final int ABI = 1;
    private static final String NEEDED = "chat completions constraints embeddings plan sessions tokenize tools";
    private static final List<String> LIBRARIES = List.of("libstrata_c.so", "libstrata_jni.so");

    /** What {@link #next} returns. */
    static final int DOCUMENT = 1;

    /** What {@link #next} returns. */
    static final int PENDING = 2;

    /** Frees what nobody has closed. */
    static final Cleaner CLEANER = Cleaner.create();

    static {
        load();
        if (abi() != ABI) {
            throw new StrataException("unsupported", "the library is of another version than this package", null);
        }
        require(bytes(NEEDED));
    }

    private Native() {}

    /** Loads the libraries: from the folder that the property {@code strata.library} names, or out of the package. */
    private static void load() {
        String folder = System.getProperty("strata.library");
        if (folder != null) {
            System.load(Path.of(folder).toAbsolutePath().resolve(LIBRARIES.get(1)).toString());
            return;
        }
        try {
            Path copy = Files.createTempDirectory("strata");
            try {
                for (String library : LIBRARIES) {
                    try (InputStream packed = Native.class.getResourceAsStream(platform() + "/" + library)) {
                        if (packed == null) {
                            throw new UnsatisfiedLinkError("this package has no library for " + platform());
                        }
                        Files.copy(packed, copy.resolve(library));
                    }
                }
                System.load(copy.resolve(LIBRARIES.get(1)).toString());
            } finally {
                // What is loaded stays in memory without its file.
                for (String library : LIBRARIES) {
                    Files.deleteIfExists(copy.resolve(library));
                }
                Files.delete(copy);
            }
        } catch (IOException problem) {
            throw new StrataException("io", "cannot unpack the library: " + problem.getMessage(), null);
        }
    }

    private static String platform() {
        String machine = System.getProperty("os.arch").equals("aarch64") ? "aarch64" : "x86_64";
        return System.getProperty("os.name").toLowerCase(Locale.ROOT) + "-" + machine;
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    /** An error as the library tells it; called from native code. */
    static StrataException failure(byte[] code, byte[] message, byte[] hint) {
        String kind = code == null ? "internal" : text(code);
        String what = message == null ? "the call failed" : text(message);
        String advice = hint == null ? null : text(hint);
        return kind.equals("canceled") ? new CanceledException(what) : new StrataException(kind, what, advice);
    }

    static native int abi();

    static native byte[] features();

    static native void require(byte[] features);

    static native long open(byte[] model, byte[] options);

    static native byte[] plan(byte[] model, byte[] options);

    static native void freeModel(long model);

    static native byte[] info(long model);

    static native byte[] adapters(long model);

    static native void setAdapters(long model, byte[] scales);

    static native int[] tokenize(long model, byte[] text);

    static native byte[] detokenize(long model, int[] tokens);

    static native long request(long model, byte[] path, byte[] body);

    static native long chatTools(long model, byte[] body);

    static native void toolResult(long stream, byte[] id, byte[] result);

    static native int next(long stream, long milliseconds, byte[][] document);

    static native void cancel(long stream);

    static native void freeStream(long stream);

    static native long session(long model);

    static native void constrain(long session, byte[] constraints);

    static native void append(long session, byte[] text);

    static native long run(long session, byte[] body);

    static native byte[] text(long session);

    static native long fork(long session);

    static native byte[] save(long session);

    static native long restore(long model, byte[] saved);

    static native void freeSession(long session);
}
