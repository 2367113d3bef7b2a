using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Text.Json;
using System.Threading;
using System.Threading.Tasks;
using Strata;

/// <summary>
/// What every binding must do, in C#. Says `feature NAME` for each thing that it has seen work.
/// `cargo xtask test-bindings csharp` sets what is expected in the environment.
/// </summary>
internal static class Check
{
    private static readonly string Story = Variable("STRATA_STORY");
    private const string Asked = "Tell me a story about a fox.";
    private const string Once = "Once upon a time";

    private static string Variable(string name) => Environment.GetEnvironmentVariable(name) ?? "";

    private static void Feature(string name) => Console.WriteLine("feature " + name);

    private static void Holds(bool holds, object what)
    {
        if (!holds) throw new Exception(what.ToString());
    }

    private static void Fails(string code, Action act)
    {
        try
        {
            act();
        }
        catch (StrataException problem)
        {
            Holds(problem.Code == code, problem.Code + ": " + problem.Message);
            return;
        }
        throw new Exception("no error " + code);
    }

    private static Dictionary<string, object> Options(params (string, object)[] fields) =>
        fields.ToDictionary(field => field.Item1, field => field.Item2);

    private static Dictionary<string, object> Greedy(int tokens = 32) => Options(("temperature", 0), ("max_tokens", tokens));

    private static Answer Endless(Model model) => model.Complete("Once", Options(("max_tokens", 2000), ("ignore_eos", true)));

    private static async Task Answers(Model model)
    {
        Holds(model.Chat(Asked, Greedy()).Text() == Story, "another story");
        Feature("greedy");
        Answer answer = model.Chat(Asked, Greedy());
        List<string> pieces = answer.Select(heard => heard.Text).ToList();
        Holds(string.Concat(pieces) == Story && pieces.Count > 5 && answer.FinishReason == "length", pieces.Count);
        string awaited = "";
        await foreach (Event heard in model.Chat(Asked, Greedy())) awaited += heard.Text;
        Holds(awaited == Story, awaited);
        Feature("stream");
    }

    private static async Task Cancels(Model model)
    {
        foreach (Event heard in Endless(model))
        {
            Holds(heard.Text != "", "no text");
            break;
        }
        await foreach (Event heard in Endless(model))
        {
            Holds(heard.Text != "", "no text");
            break;
        }
        using (var source = new CancellationTokenSource(50))
        {
            try
            {
                await Endless(model).TextAsync(source.Token);
                throw new Exception("it ended");
            }
            catch (OperationCanceledException)
            {
            }
        }
        Answer answer = Endless(model);
        Task other = Task.Delay(50).ContinueWith(_ => answer.Cancel());
        Fails("canceled", () => answer.Text());
        await other;
        // In a prompt's computation, too.
        string prompt = string.Concat(Enumerable.Repeat("fox owl ", 900));
        JsonStream stream = model.Request("/v1/completions", Options(("prompt", prompt), ("max_tokens", 1)));
        Holds(stream.TryNext(1, out _) == 2, "an answer already");
        stream.Cancel();
        Fails("canceled", () => stream.Next());
        Feature("cancel");
    }

    private enum Animal { fox, owl }

    private enum City { Bern, Oslo }

    private sealed class Hero
    {
        public Animal Animal { get; set; }

        [Range(1, 9)]
        public int Age { get; set; }
    }

    private sealed class Place
    {
        public City City { get; set; }
    }

    private static void Schemas(Model model)
    {
        Hero hero = model.Chat("Who is the hero?", Greedy(60)).As<Hero>();
        Holds(hero.Age >= 1 && hero.Age <= 9, hero.Age);
        Feature("schema");
    }

    private static void Tools(Model model)
    {
        var asked = new List<City>();
        Tool weather = Tool.Of<Place>("weather", "Tells the weather in a city.", place =>
        {
            asked.Add(place.City);
            return new { Degrees = 18 };
        });
        Answer answer = model.Chat("Is it warm in Oslo?", Greedy(60)).Tools(weather).Set("tool_choice", "required");
        Holds(answer.Text() != "" && asked.Count > 0 && answer.Calls().Count == 0, asked.Count);
        Answer left = model.Chat("Warm?", Greedy(60)).Set("tools", new[] { weather.Document }).Set("tool_choice", "required");
        Holds(left.Calls()[0].Arguments.Contains("city"), left.Calls()[0].Arguments);
        Feature("tools");
    }

    private static void Embeddings(Model model)
    {
        float[] expected = JsonSerializer.Deserialize<float[]>(Variable("STRATA_EMBEDDING"));
        Holds(model.Embed("a fox and an owl", "an owl")[0].SequenceEqual(expected), "another vector");
        Feature("embeddings");
    }

    private static async Task Adapters()
    {
        string[] files = { Variable("STRATA_ADAPTER_ONE"), Variable("STRATA_ADAPTER_TWO") };
        using Model model = Model.Load("tale", Options(("adapters", files)));
        string Ask(Dictionary<int, double>? scales)
        {
            Answer answer = model.Complete(Once, Greedy(16));
            return (scales == null ? answer : answer.Adapters(scales)).Text();
        }
        var wanted = new[] { null, new Dictionary<int, double> { [0] = 1 }, new Dictionary<int, double> { [1] = 1 } };
        string[] alone = wanted.Select(Ask).ToArray();
        Holds(alone.Distinct().Count() == 3, string.Join("|", alone));
        string[] together = await Task.WhenAll(wanted.Select(scales => Task.Run(() => Ask(scales))));
        Holds(together.SequenceEqual(alone), "others together");
        model.SetAdapters(wanted[2]!);
        Holds(Ask(null) == alone[2] && model.Adapters.GetArrayLength() == 2, "the default");
        Feature("adapters");
    }

    private static void Sessions(Model model)
    {
        using Session session = model.Session().Append(Once);
        using Session fork = session.Fork();
        string said = session.Run(Greedy(6)).Text();
        Holds(session.Text == Once + said && model.Restore(session.Save()).Text == session.Text, session.Text);
        Holds(fork.Run(Greedy(6)).Text() == said, "another fork");
        Fails("invalid_argument", () => model.Restore(new byte[] { 1, 2, 3 }));
        Feature("sessions");
        using Session held = model.Session().Append(Once).Constrain(Options(("guided_regex", "(yes|no)"), ("never_to_disk", true)));
        using Session other = held.Fork();
        string answer = held.Run(Greedy(6)).Text();
        Holds((answer == "yes" || answer == "no") && other.Run(Greedy(6)).Text() == answer, answer);
        Fails("invalid_argument", () => held.Save());
        Fails("invalid_argument", () => held.Constrain(Options(("colour", "red"))));
        Feature("constraints");
    }

    private static void Others(Model model)
    {
        Holds(model.Detokenize(model.Tokenize("Once a 🦊 upon a time")).Contains("🦊 upon a time"), "tokens");
        Feature("tokenize");
        JsonElement plan = Model.Plan("tale", Options(("context", 512)));
        Holds(plan.GetProperty("fits").GetBoolean() && plan.GetProperty("total").GetInt64() > plan.GetProperty("weights").GetInt64(), plan);
        Feature("plan");
        Fails("not_found", () => Model.Load("nowhere.gguf"));
        Fails("out_of_memory", () => Model.Load("tale", Options(("memory", "1k"))));
        Fails("invalid_argument", () => model.Chat("a", Options(("tempreature", 1))).Text());
        Model other = Model.Load("tale");
        Holds(other.Info.GetProperty("name").GetString() == "tale" && Model.Features.Contains("chat"), other.Info);
        other.Dispose();
        other.Dispose();
        Fails("closed", () => other.Tokenize("a"));
        Feature("errors");
    }

    private static void Senses()
    {
        var eyes = Options(("projector", Variable("STRATA_EYES")));
        using (Model model = Model.Load(Variable("STRATA_SEEING_MODEL"), eyes))
        {
            using JsonDocument question = JsonDocument.Parse(Variable("STRATA_QUESTION"));
            using JsonStream stream = model.Request("/v1/chat/completions", question.RootElement);
            JsonElement choice = stream.Next()!.Value.GetProperty("choices")[0];
            Holds(choice.GetProperty("logprobs").GetRawText() == Variable("STRATA_SEEN"), choice);
        }
        Feature("images");
        using (Model model = Model.Load(Variable("STRATA_HEARING_MODEL")))
        {
            using JsonDocument heard = JsonDocument.Parse(Variable("STRATA_HEARD"));
            JsonElement told = model.Transcribe(Variable("STRATA_SOUND"), Options(("response_format", "verbose_json")));
            foreach (JsonProperty field in heard.RootElement.EnumerateObject())
                Holds(told.GetProperty(field.Name).GetRawText() == field.Value.GetRawText(), told);
            Holds(told.GetProperty("text").GetString() != "", told);
            Fails("not_found", () => model.Transcribe("/nowhere.wav"));
            Fails("unsupported", () => model.Chat("a").Text());
        }
        Feature("speech");
    }

    private static long Resident()
    {
        GC.Collect();
        GC.WaitForPendingFinalizers();
        return long.Parse(File.ReadAllText("/proc/self/statm").Split(' ')[1]) * 4;
    }

    private static void Stress()
    {
        double seconds = double.Parse(Variable("STRATA_STRESS_SECONDS"));
        Model model = Model.Load("tale", Options(("context", 64), ("requests", 16)));
        DateTime end = DateTime.UtcNow.AddSeconds(seconds);
        int ended = 0, canceled = 0;
        var problems = new ConcurrentQueue<Exception>();
        var shared = new Answer?[64];
        void Work(int seed)
        {
            var dice = new Random(seed);
            while (DateTime.UtcNow < end)
            {
                using Answer answer = model.Complete($"{Once} {dice.Next(50)}", Options(("max_tokens", 1 + dice.Next(24))));
                Volatile.Write(ref shared[dice.Next(64)], answer);
                try
                {
                    foreach (Event _ in answer)
                    {
                        if (dice.Next(16) == 0) Volatile.Read(ref shared[dice.Next(64)])?.Cancel();
                    }
                    Interlocked.Increment(ref ended);
                }
                catch (StrataException problem) when (problem.Code == "canceled")
                {
                    Interlocked.Increment(ref canceled);
                }
            }
        }
        var threads = Enumerable.Range(0, 64).Select(number => new Thread(() =>
        {
            try { Work(number); } catch (Exception problem) { problems.Enqueue(problem); }
        })).ToList();
        threads.ForEach(thread => thread.Start());
        Thread.Sleep(TimeSpan.FromSeconds(seconds / 3));
        long early = Resident();
        threads.ForEach(thread => thread.Join());
        long late = Resident();
        model.Dispose();
        Holds(problems.IsEmpty, string.Join("\n", problems));
        string counts = $"{ended} ended, {canceled} canceled; {early} kB, then {late} kB";
        Holds(ended > 0 && canceled > 0 && late < early + (seconds < 10 ? 131072 : 65536), counts);
        Console.Error.WriteLine(counts);
        Feature("stress");
    }

    private static async Task Main()
    {
        using (Model model = Model.Load("tale"))
        {
            await Answers(model);
            await Cancels(model);
            Schemas(model);
            Tools(model);
            Embeddings(model);
            await Adapters();
            Sessions(model);
            Others(model);
        }
        Senses();
        Stress();
    }
}
