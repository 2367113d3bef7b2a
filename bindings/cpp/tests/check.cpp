// The C++ interface: the first argument is the answer that must come, the second and third are adapters.
#include "strata.hpp"
#include <atomic>
#include <iostream>
#include <thread>

#define CHECK(holds)                                                                             \
    do {                                                                                         \
        if (!(holds)) {                                                                          \
            std::cerr << "line " << __LINE__ << ": " << #holds << "\n";                          \
            std::exit(1);                                                                        \
        }                                                                                        \
    } while (0)

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
    CHECK(strata::content(model.chat(story("")).whole()) == expected);
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
    bool pending = true;
    strata::Stream slow = model.complete(LONG);
    while (pending)
        slow.next(std::chrono::milliseconds(5), pending);
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
}

static void others(const strata::Model &model) {
    auto tokens = model.tokenize("Once upon a time");
    CHECK(tokens.size() > 3 && model.detokenize(tokens).find("upon") != std::string::npos);
    CHECK(model.embed(R"({"input":"a fox"})").whole().find("\"embedding\":[") != std::string::npos);
    CHECK(model.info().find("\"tale\"") != std::string::npos);
    CHECK(strata::Model::plan("tale").find("\"fits\":true") != std::string::npos);
    strata::Session session = model.session();
    session.append("Once upon a time");
    strata::Session fork = session.fork();
    session.run(R"({"max_tokens":4,"temperature":0})").whole();
    strata::Session restored = model.restore(session.save());
    CHECK(restored.text() == session.text() && fork.text() != session.text());
    try {
        model.chat("{");
        CHECK(false);
    } catch (const strata::Error &error) {
        CHECK(error.code() == "invalid_argument" && std::string(error.what()).size() > 5);
    }
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
}

static void many(const strata::Model &model) {
    std::atomic<int> ended{0}, canceled{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 64; i++) {
        threads.emplace_back([&, i, copy = model] {
            strata::Stream stream = copy.complete(R"({"prompt":"Once","max_tokens":24,"stream":true})");
            std::thread canceler([&stream, i] {
                std::this_thread::sleep_for(std::chrono::milliseconds(i));
                if (i % 2)
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
        });
    }
    for (auto &thread : threads)
        thread.join();
    CHECK(ended + canceled == 64 && ended >= 32);
}

int main(int count, char **arguments) {
    CHECK(count == 4);
    strata::Model model("tale");
    strata::Model copy = model;
    streams(copy, arguments[1]);
    schemas(model);
    tools(model);
    others(model);
    adapters(arguments[2], arguments[3]);
    many(model);
    std::cout << "all is well\n";
}
