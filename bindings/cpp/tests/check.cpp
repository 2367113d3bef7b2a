// What every binding must do, in C++. Says `feature NAME` for each thing that it has seen work.
// `cargo xtask test-bindings cpp` sets what is expected in the environment.
#include "strata.hpp"
#include <atomic>
#include <fstream>
#include <iostream>
#include <random>
#include <thread>

#define CHECK(holds)                                                                             \
    do {                                                                                         \
        if (!(holds)) {                                                                          \
            std::cerr << "line " << __LINE__ << ": " << #holds << "\n";                          \
            std::exit(1);                                                                        \
        }                                                                                        \
    } while (0)

static void feature(const char *name) { std::cout << "feature " << name << "\n"; }

static std::string story(const std::string &more) {
    return R"({"messages":[{"role":"user","content":"Tell me a story about a fox."}],"temperature":0,"max_tokens":32)" +
           more + "}";
}

static const char *const LONG =
    R"({"prompt":"Once upon a time","max_tokens":4000,"ignore_eos":true,"stream":true})";

static void streams(const strata::Model &model, const std::string &expected) {
    std::string text;
    for (const std::string &chunk : model.chat(story(R"(,"stream":true)")))
        text += strata::content(chunk);
    CHECK(text == expected);
    feature("stream");
    CHECK(strata::content(model.chat(story("")).whole()) == expected);
    feature("greedy");
    // Leaving the loop cancels.
    for (const std::string &chunk : model.complete(LONG)) {
        CHECK(!chunk.empty());
        break;
    }
    strata::Stream stream = model.complete(LONG);
    CHECK(stream.next() && stream.fd() >= 0);
    std::thread other([&] { stream.cancel(); });
    std::string code;
    try {
        while (stream.next()) {
        }
    } catch (const strata::Error &error) {
        code = error.code();
        CHECK(error.canceled());
    }
    other.join();
    CHECK(code == "canceled");
    // In a prompt's computation, too.
    std::string words;
    for (int i = 0; i < 900; i++)
        words += "fox owl ";
    bool pending = false;
    strata::Stream prompt = model.complete(R"({"max_tokens":1,"prompt":")" + words + "\"}");
    CHECK(!prompt.next(std::chrono::milliseconds(1), pending) && pending);
    prompt.cancel();
    try {
        prompt.next();
        CHECK(false);
    } catch (const strata::Error &error) {
        CHECK(error.canceled());
    }
    pending = true;
    strata::Stream slow = model.complete(LONG);
    while (pending)
        slow.next(std::chrono::milliseconds(5), pending);
    feature("cancel");
}

static void schemas(const strata::Model &model) {
    struct Hero {
        std::string animal;
    };
    auto document = model
                        .chat(story(R"(,"response_format":{"type":"json_schema","json_schema":{"name":"hero","schema":{
                            "type":"object","properties":{"animal":{"enum":["fox","owl"]}},"required":["animal"],
                            "additionalProperties":false}}})"))
                        .whole();
    Hero hero{strata::string_of(strata::content(document), "animal").value_or("")};
    CHECK(hero.animal == "fox" || hero.animal == "owl");
    feature("schema");
}

static void tools(const strata::Model &model) {
    auto stream = model.chat_tools(
        R"({"messages":[{"role":"user","content":"Is it warm in Oslo?"}],"temperature":0,"max_tokens":60,"stream":true,
            "parallel_tool_calls":false,"tool_choice":"required","tools":[{"type":"function","function":{"name":"weather",
            "strict":true,"parameters":{"type":"object","properties":{"city":{"enum":["Bern","Oslo"]}},
            "required":["city"],"additionalProperties":false}}}]})");
    int called = 0;
    std::string text;
    for (const std::string &document : stream) {
        if (strata::string_of(document, "object") == "tool.calls") {
            auto city = strata::string_of(document, "city").value_or("");
            CHECK(city == "Bern" || city == "Oslo");
            stream.tool_result(*strata::string_of(document, "id"), "18 degrees in " + city);
            called++;
        } else {
            text += strata::content(document);
        }
    }
    CHECK(called == 1 && !text.empty());
    feature("tools");
}

static void others(const strata::Model &model) {
    auto tokens = model.tokenize("Once upon a time");
    CHECK(tokens.size() > 3 && model.detokenize(tokens).find("upon") != std::string::npos);
    feature("tokenize");
    const std::string vector = std::string("\"embedding\":") + std::getenv("STRATA_EMBEDDING");
    CHECK(model.embed(R"({"input":"a fox and an owl"})").whole().find(vector) != std::string::npos);
    feature("embeddings");
    CHECK(model.info().find("\"tale\"") != std::string::npos);
    CHECK(strata::Model::plan("tale").find("\"fits\":true") != std::string::npos);
    feature("plan");
    strata::Session session = model.session();
    session.append("Once upon a time");
    strata::Session fork = session.fork();
    session.run(R"({"max_tokens":4,"temperature":0})").whole();
    strata::Session restored = model.restore(session.save());
    CHECK(restored.text() == session.text() && fork.text() != session.text());
    feature("sessions");
    strata::Session held = model.session();
    held.append("Once upon a time");
    held.constrain(R"-({"guided_regex":"(yes|no)","never_to_disk":true})-");
    auto answer = *strata::string_of(held.run(R"({"temperature":0,"max_tokens":6})").whole(), "text");
    CHECK(answer == "yes" || answer == "no");
    for (auto act : {+[](strata::Session &s) { s.save(); }, +[](strata::Session &s) { s.constrain("{\"colour\":\"red\"}"); }}) {
        try {
            act(held);
            CHECK(false);
        } catch (const strata::Error &error) {
            CHECK(error.code() == "invalid_argument");
        }
    }
    feature("constraints");
    try {
        model.chat("{");
        CHECK(false);
    } catch (const strata::Error &error) {
        CHECK(error.code() == "invalid_argument" && std::string(error.what()).size() > 5);
    }
    feature("errors");
    CHECK(strata::quote("a\"b\n\\") == R"("a\"b\u000a\\")");
    CHECK(strata::string_of(R"({"content":"\u00e4\ud83e\udd8a\n\"","x":1})", "content") == "\xc3\xa4\xf0\x9f\xa6\x8a\n\"");
}

static void adapters(const char *one, const char *two) {
    strata::Model model("tale", "{\"adapters\":[" + strata::quote(one) + "," + strata::quote(two) + "]}");
    auto ask = [&](const std::string &lora) {
        return model.complete(R"({"prompt":"Once upon a time","temperature":0,"max_tokens":16)" + lora + "}");
    };
    auto text = [](strata::Stream stream) { return *strata::string_of(stream.whole(), "text"); };
    const std::string first = R"(,"lora":[{"id":0,"scale":1}])", second = R"(,"lora":[{"id":1,"scale":1}])";
    std::string alone = text(ask(first)), other = text(ask(second)), plain = text(ask(""));
    CHECK(alone != other && alone != plain && other != plain);
    // All in one batch.
    auto a = ask(first), b = ask(second), c = ask("");
    CHECK(text(std::move(b)) == other && text(std::move(a)) == alone && text(std::move(c)) == plain);
    feature("adapters");
}

static long resident() {
    std::ifstream file("/proc/self/statm");
    long size = 0, pages = 0;
    file >> size >> pages;
    return pages * 4;
}

static void many() {
    const double seconds = std::atof(std::getenv("STRATA_STRESS_SECONDS"));
    const strata::Model model("tale", R"({"context":64,"requests":16})");
    const auto start = std::chrono::steady_clock::now();
    auto passed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
    std::atomic<long> ended{0}, canceled{0};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 64; i++) {
        threads.emplace_back([&, i, copy = model] {
            std::minstd_rand dice(i + 1);
            while (passed() < seconds) {
                strata::Stream stream = copy.complete(R"({"prompt":"Once","max_tokens":12,"stream":true})");
                const auto delay = std::chrono::milliseconds(dice() % 200);
                const bool cancels = dice() % 2 == 0;
                std::thread canceler([&stream, delay, cancels] {
                    std::this_thread::sleep_for(delay);
                    if (cancels)
                        stream.cancel();
                });
                try {
                    for (const std::string &chunk : stream)
                        CHECK(!chunk.empty());
                    ended++;
                } catch (const strata::Error &error) {
                    CHECK(error.canceled());
                    canceled++;
                }
                canceler.join();
            }
        });
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds / 3));
    const long early = resident();
    for (auto &thread : threads)
        thread.join();
    const long late = resident();
    std::cerr << ended << " ended, " << canceled << " canceled; " << early << " kB, then " << late << " kB\n";
    CHECK(ended > 0 && canceled > 0 && late < early + (seconds < 10 ? 65536 : 24576));
    feature("stress");
}

static std::string variable(const char *name) {
    const char *value = std::getenv(name);
    CHECK(value);
    return value;
}

static void senses() {
    const strata::Model sees(variable("STRATA_SEEING_MODEL"), R"({"projector":")" + variable("STRATA_EYES") + "\"}");
    const std::string answer = sees.chat(variable("STRATA_QUESTION")).whole();
    CHECK(answer.find(variable("STRATA_SEEN")) != std::string::npos);
    feature("images");
    CHECK(strata::Model::features().find("transcriptions") != std::string::npos);
    const strata::Model hears(variable("STRATA_HEARING_MODEL"));
    const std::string file = R"({"file":")" + variable("STRATA_SOUND") + "\"";
    const std::string all = hears.transcribe(file + R"(,"response_format":"verbose_json"})").whole();
    const std::string heard = variable("STRATA_HEARD");
    CHECK(all.compare(0, heard.size() - 1, heard, 0, heard.size() - 1) == 0);
    int pieces = 0;
    for (const std::string &piece : hears.transcribe(file + R"(,"stream":true})"))
        pieces += !piece.empty();
    CHECK(pieces > 1);
    std::string code;
    try {
        hears.complete(R"({"prompt":"Once"})");
    } catch (const strata::Error &error) {
        code = error.code();
    }
    CHECK(code == "unsupported");
    feature("speech");
}

int main() {
    strata::Model model("tale");
    strata::Model copy = model;
    streams(copy, std::getenv("STRATA_STORY"));
    schemas(model);
    tools(model);
    others(model);
    adapters(std::getenv("STRATA_ADAPTER_ONE"), std::getenv("STRATA_ADAPTER_TWO"));
    senses();
    many();
}
