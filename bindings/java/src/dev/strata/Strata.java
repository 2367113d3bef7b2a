package dev.strata;

import java.util.Map;

/** Language models in your own process: no daemon, the same bytes everywhere. */
public final class Strata {
    private Strata() {}

    /** Opens a model: a GGUF file, a Hugging Face folder, a name in the store, or "tale", which is built in. */
    public static Model load(String model) {
        return load(model, Map.of());
    }

    /** Opens a model with options: memory ("6G"), threads, context, requests, adapters and others. */
    public static Model load(String model, Map<String, ?> options) {
        return new Model(Native.open(Native.bytes(model), Native.bytes(Json.write(options))));
    }

    /** What a model would take in bytes, without loading it. */
    public static Map<String, Object> plan(String model, Map<String, ?> options) {
        return Json.object(Native.text(Native.plan(Native.bytes(model), Native.bytes(Json.write(options)))));
    }

    /** What this build can do, by name. */
    public static java.util.List<String> features() {
        return java.util.List.of(Native.text(Native.features()).split(" "));
    }
}
