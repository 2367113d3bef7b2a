import dev.strata.Answer;
import dev.strata.CanceledException;
import dev.strata.Event;
import dev.strata.Json;
import dev.strata.JsonStream;
import dev.strata.Model;
import dev.strata.Range;
import dev.strata.Session;
import dev.strata.Strata;
import dev.strata.StrataException;
import dev.strata.Tool;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReferenceArray;

/**
 * What every binding must do, in Java. Says {@code feature NAME} for each thing that it has seen work.
 * {@code cargo xtask test-bindings java} sets what is expected in the environment.
 */
public final class Check {
    private static final String STORY = System.getenv("STRATA_STORY");
    private static final String ASKED = "Tell me a story about a fox.";
    private static final String ONCE = "Once upon a time";

    enum Animal { fox, owl }

    enum City { Bern, Oslo }

    record Hero(Animal animal, @Range(min = 1, max = 9) int age, List<Animal> friends) {}

    record Place(City city) {}

    static void feature(String name) {
        System.out.println("feature " + name);
    }

    static void check(boolean holds, Object what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static void fails(String code, Runnable act) {
        try {
            act.run();
        } catch (StrataException problem) {
            check(problem.code().equals(code), problem.code() + ": " + problem.getMessage());
            return;
        }
        throw new AssertionError("no error " + code);
    }

    static Answer greedy(Answer answer) {
        return answer.set("temperature", 0).set("max_tokens", 32);
    }

    static Answer endless(Model model) {
        return model.complete("Once").set("max_tokens", 2000).set("ignore_eos", true);
    }

    static void answers(Model model) {
        check(greedy(model.chat(ASKED)).text().equals(STORY), "another story");
        feature("greedy");
        List<String> pieces = new ArrayList<>();
        Answer answer = greedy(model.chat(List.of(Map.of("role", "user", "content", ASKED))));
        for (Event event : answer) {
            pieces.add(event.text());
        }
        check(String.join("", pieces).equals(STORY) && pieces.size() > 5, pieces);
        check(answer.finishReason().equals("length"), answer.finishReason());
        // Text beyond what modified UTF-8 writes like others.
        check(model.detokenize(model.tokenize("a 🦊 fox")).contains("🦊"), "🦊");
        feature("stream");
    }

    static void cancel(Model model) throws Exception {
        try (Answer answer = endless(model)) {
            check(!answer.iterator().next().text().isEmpty(), "no text");
        }
        Answer answer = endless(model);
        CompletableFuture<Void> other = CompletableFuture.runAsync(() -> {
            pause(50);
            answer.cancel();
        });
        fails("canceled", answer::text);
        other.get();
        // In a prompt's computation, too.
        JsonStream stream = model.request("/v1/completions", Map.of("prompt", "fox owl ".repeat(900), "max_tokens", 1));
        check(stream.next(1).isEmpty(), "an answer already");
        stream.cancel();
        fails("canceled", stream::next);
        Answer early = endless(model);
        early.cancel();
        fails("canceled", early::text);
        feature("cancel");
    }

    static void pause(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException problem) {
            throw new IllegalStateException(problem);
        }
    }

    static void schema(Model model) {
        Hero hero = model.chat("Who is the hero?").set("temperature", 0).set("max_tokens", 200).as(Hero.class);
        check(hero.animal() != null && hero.age() >= 1 && hero.age() <= 9, hero);
        feature("schema");
    }

    static void tools(Model model) {
        List<City> asked = new ArrayList<>();
        Tool weather = Tool.of("weather", "Tells the weather in a city.", Place.class, place -> {
            asked.add(place.city());
            return Map.of("degrees", 18);
        });
        Answer answer = model.chat("Is it warm in Oslo?").tools(weather);
        answer.set("tool_choice", "required").set("temperature", 0).set("max_tokens", 60);
        check(!answer.text().isEmpty() && !asked.isEmpty() && answer.calls().isEmpty(), asked);
        Answer left = model.chat("Warm?").set("tools", List.of(weather.document()));
        left.set("tool_choice", "required").set("temperature", 0).set("max_tokens", 60);
        City.valueOf((String) left.calls().get(0).arguments().get("city"));
        feature("tools");
    }

    static void embeddings(Model model) {
        List<?> numbers = (List<?>) Json.parse(System.getenv("STRATA_EMBEDDING"));
        float[] expected = new float[numbers.size()];
        for (int i = 0; i < expected.length; i++) {
            expected[i] = ((Number) numbers.get(i)).floatValue();
        }
        check(Arrays.equals(model.embed("a fox and an owl", "an owl")[0], expected), "another vector");
        feature("embeddings");
    }

    static void adapters() {
        List<String> files = List.of(System.getenv("STRATA_ADAPTER_ONE"), System.getenv("STRATA_ADAPTER_TWO"));
        try (Model model = Strata.load("tale", Map.of("adapters", files))) {
            check(model.adapters().size() == 2, model.adapters());
            List<Map<Integer, Double>> wanted = List.of(Map.of(), Map.of(0, 1.0), Map.of(1, 1.0));
            List<String> alone = wanted.stream().map(scales -> ask(model, scales)).toList();
            check(new HashSet<>(alone).size() == 3, alone);
            var asked = wanted.stream().map(scales -> CompletableFuture.supplyAsync(() -> ask(model, scales))).toList();
            check(asked.stream().map(CompletableFuture::join).toList().equals(alone), "others together");
            model.setAdapters(wanted.get(2));
            check(ask(model, null).equals(alone.get(2)), "the default");
        }
        feature("adapters");
    }

    static String ask(Model model, Map<Integer, Double> scales) {
        Answer answer = model.complete(ONCE).set("temperature", 0).set("max_tokens", 16);
        return (scales == null ? answer : answer.adapters(scales)).text();
    }

    static void sessions(Model model) {
        try (Session session = model.session().append(ONCE); Session fork = session.fork()) {
            String said = session.run().set("max_tokens", 6).set("temperature", 0).text();
            check(session.text().equals(ONCE + said), session.text());
            check(model.restore(session.save()).text().equals(session.text()), "another text");
            check(fork.run().set("max_tokens", 6).set("temperature", 0).text().equals(said), "another fork");
        }
        fails("invalid_argument", () -> model.restore(new byte[] {1, 2, 3}));
        feature("sessions");
        try (Session held = model.session().append(ONCE).constrain(Map.of("guided_regex", "(yes|no)", "never_to_disk", true));
                Session fork = held.fork()) {
            String said = held.run().set("max_tokens", 6).set("temperature", 0).text();
            check(said.equals("yes") || said.equals("no"), said);
            check(fork.run().set("max_tokens", 6).set("temperature", 0).text().equals(said), "another fork");
            fails("invalid_argument", held::save);
            fails("invalid_argument", () -> held.constrain(Map.of("colour", "red")));
        }
        feature("constraints");
    }

    static void others(Model model) {
        check(model.detokenize(model.tokenize(ONCE)).contains("upon a time"), "tokens");
        feature("tokenize");
        Map<String, Object> plan = Strata.plan("tale", Map.of("context", 512));
        check(plan.get("fits").equals(true) && (Long) plan.get("total") > (Long) plan.get("weights"), plan);
        feature("plan");
        fails("not_found", () -> Strata.load("nowhere.gguf"));
        fails("out_of_memory", () -> Strata.load("tale", Map.of("memory", "1k")));
        fails("invalid_argument", () -> model.chat("a").set("tempreature", 1).text());
        fails("context_exceeded", () -> model.complete("fox ".repeat(9000)).text());
        Model other = Strata.load("tale");
        check(other.info().get("name").equals("tale") && Strata.features().contains("chat"), other.info());
        other.close();
        other.close();
        fails("closed", () -> other.tokenize("a"));
        feature("errors");
    }

    static void senses() {
        Map<String, Object> options = Map.of("projector", System.getenv("STRATA_EYES"));
        try (Model model = Strata.load(System.getenv("STRATA_SEEING_MODEL"), options);
                JsonStream stream = model.request("/v1/chat/completions", Json.parse(System.getenv("STRATA_QUESTION")))) {
            Map<?, ?> choice = (Map<?, ?>) ((List<?>) stream.next().get("choices")).get(0);
            check(choice.get("logprobs").equals(Json.parse(System.getenv("STRATA_SEEN"))), choice);
        }
        feature("images");
        try (Model model = Strata.load(System.getenv("STRATA_HEARING_MODEL"))) {
            Map<String, Object> heard = Json.object(System.getenv("STRATA_HEARD"));
            Map<String, Object> told =
                    model.transcribe(System.getenv("STRATA_SOUND"), Map.of("response_format", "verbose_json"));
            check(!told.get("text").equals("") && told.entrySet().containsAll(heard.entrySet()), told);
            fails("not_found", () -> model.transcribe("/nowhere.wav"));
            fails("unsupported", () -> model.chat("a").text());
        }
        feature("speech");
    }

    static long resident() throws Exception {
        System.gc();
        return Long.parseLong(Files.readString(Path.of("/proc/self/statm")).split(" ")[1]) * 4;
    }

    static void stress() throws Exception {
        String given = System.getenv("STRATA_STRESS_SECONDS");
        double seconds = given == null ? 3 : Double.parseDouble(given);
        Model model = Strata.load("tale", Map.of("context", 64, "requests", 16));
        long end = System.nanoTime() + (long) (seconds * 1e9);
        AtomicInteger ended = new AtomicInteger();
        AtomicInteger canceled = new AtomicInteger();
        List<Throwable> problems = java.util.Collections.synchronizedList(new ArrayList<>());
        AtomicReferenceArray<Answer> shared = new AtomicReferenceArray<>(64);
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < 64; i++) {
            Thread thread = new Thread(() -> work(model, end, shared, ended, canceled));
            thread.setUncaughtExceptionHandler((which, problem) -> problems.add(problem));
            thread.start();
            threads.add(thread);
        }
        Thread.sleep((long) (seconds * 1000 / 3));
        long early = resident();
        for (Thread thread : threads) {
            thread.join();
        }
        long late = resident();
        model.close();
        check(problems.isEmpty(), problems);
        String counts = ended + " ended, " + canceled + " canceled; " + early + " kB, then " + late + " kB";
        check(ended.get() > 0 && canceled.get() > 0 && late < early + (seconds < 10 ? 131_072 : 65_536), counts);
        System.err.println(counts);
        feature("stress");
    }

    static void work(Model model, long end, AtomicReferenceArray<Answer> shared, AtomicInteger ended, AtomicInteger canceled) {
        ThreadLocalRandom dice = ThreadLocalRandom.current();
        while (System.nanoTime() < end) {
            try (Answer answer = model.complete(ONCE + " " + dice.nextInt(50)).set("max_tokens", 1 + dice.nextInt(24))) {
                shared.set(dice.nextInt(64), answer);
                for (Event event : answer) {
                    Answer other = shared.get(dice.nextInt(64));
                    if (other != null && dice.nextInt(16) == 0) {
                        other.cancel();
                    }
                }
                ended.incrementAndGet();
            } catch (CanceledException expected) {
                canceled.incrementAndGet();
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        try (Model model = Strata.load("tale")) {
            answers(model);
            cancel(model);
            schema(model);
            tools(model);
            embeddings(model);
            adapters();
            sessions(model);
            others(model);
        }
        senses();
        stress();
    }
}
