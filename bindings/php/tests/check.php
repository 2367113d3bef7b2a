<?php

declare(strict_types=1);

// What every binding must do, in PHP. Says `feature NAME` for each thing that it has seen work.
// `cargo xtask test-bindings php` sets what is expected in the environment; the first argument is the package's folder.

use Strata\Canceled;
use Strata\Error;
use Strata\Model;
use Strata\Tool;

require $argv[1] . '/autoload.php';

const ASKED = 'Tell me a story about a fox.';
const SETTINGS = ['temperature' => 0, 'max_tokens' => 32];
const LONG = ['max_tokens' => 2000, 'ignore_eos' => true];

function feature(string $name): void
{
    echo "feature $name\n";
}

function check(bool $holds, string $what = 'it does not hold'): void
{
    if (!$holds) {
        throw new LogicException($what);
    }
}

/** @param callable(): mixed $act */
function fails(callable $act, string $kind): void
{
    try {
        $act();
    } catch (Error $error) {
        check($error->kind === $kind, "{$error->kind}: {$error->getMessage()}");
        return;
    }
    check(false, "no error $kind");
}

function greedy(Model $model): void
{
    $story = getenv('STRATA_STORY');
    check($model->chat(ASKED, ...SETTINGS)->text() === $story);
    feature('greedy');
    $pieces = [];
    foreach ($model->chat([['role' => 'user', 'content' => ASKED]], ...SETTINGS) as $event) {
        $pieces[] = $event->text;
    }
    check(implode('', $pieces) === $story && count($pieces) > 5);
    feature('stream');
}

function cancel(Model $model): void
{
    foreach ($model->complete('Once', ...LONG) as $event) {
        check($event->text !== '');
        break;
    }
    $answer = $model->complete('Once', ...LONG);
    foreach ($answer as $event) {
        $answer->cancel();
        break;
    }
    try {
        $answer->text();
        check(false, 'it ended');
    } catch (Canceled $error) {
        check($error->kind === 'canceled');
    }
    // In a prompt's computation, too.
    $stream = $model->request('/v1/completions', ['prompt' => str_repeat('fox owl ', 900), 'max_tokens' => 1]);
    $stream->next(1, $pending);
    check($pending && $stream->descriptor() >= 0);
    $stream->cancel();
    fails(static fn () => $stream->next(), 'canceled');
    feature('cancel');
}

enum Animal: string
{
    case Fox = 'fox';
    case Owl = 'owl';
}

final class Hero
{
    public function __construct(public readonly Animal $animal, public readonly int $age, public readonly ?bool $wise)
    {
    }
}

function schema(Model $model): void
{
    $hero = $model->chat('Who is the hero?', schema: Hero::class, temperature: 0, max_tokens: 200)->parsed();
    check($hero instanceof Hero && in_array($hero->animal, Animal::cases(), true));
    $plain = $model->chat('?', schema: ['enum' => ['yes', 'no']], temperature: 0)->parsed();
    check(in_array($plain, ['yes', 'no'], true));
    feature('schema');
}

enum City: string
{
    case Bern = 'Bern';
    case Oslo = 'Oslo';
}

function tools(Model $model): void
{
    $asked = [];
    $weather = new Tool('weather', function (City $city) use (&$asked): array {
        $asked[] = $city;
        return ['degrees' => 18];
    }, 'Tells the weather in a city.');
    $fields = ['tool_choice' => 'required', 'temperature' => 0, 'max_tokens' => 60];
    $answer = $model->chat('Is it warm in Oslo?', [$weather], ...$fields);
    check($answer->text() !== '' && $asked !== [] && $asked[0] instanceof City && $answer->calls() === []);
    $calls = $model->chat('Warm?', [$weather->document()], ...$fields)->calls();
    check(City::tryFrom($calls[0]['arguments']['city']) !== null);
    feature('tools');
}

function embeddings(Model $model): void
{
    $expected = array_map(
        static fn (float|int $value): float => unpack('g', pack('g', $value))[1],
        json_decode((string) getenv('STRATA_EMBEDDING'), true),
    );
    check($model->embed('a fox and an owl', 'an owl')[0] === $expected);
    feature('embeddings');
}

function adapters(): void
{
    $model = Model::load('tale', adapters: [getenv('STRATA_ADAPTER_ONE'), getenv('STRATA_ADAPTER_TWO')]);
    $ask = static fn (?array $adapters) => $model->complete('Once upon a time', $adapters, temperature: 0, max_tokens: 16);
    $wanted = [null, [0 => 1.0], [1 => 1.0]];
    $alone = array_map(static fn (?array $one): string => $ask($one)->text(), $wanted);
    check(count(array_unique($alone)) === 3);
    // All in one batch: they are started before any is read.
    $body = ['prompt' => 'Once upon a time', 'temperature' => 0, 'max_tokens' => 16];
    $streams = array_map(static fn (int $id) => $model->request('/v1/completions', $body + ['lora' => [['id' => $id]]]), [0, 1]);
    $texts = array_map(static fn ($stream): string => $stream->next()['choices'][0]['text'], $streams);
    check($texts === [$alone[1], $alone[2]]);
    $model->setAdapters([1 => 1.0]);
    check($ask(null)->text() === $alone[2]);
    feature('adapters');
}

function sessions(Model $model): void
{
    $few = ['max_tokens' => 6, 'temperature' => 0];
    $session = $model->session()->append('Once upon a time');
    $fork = $session->fork();
    $said = $session->run(...$few)->text();
    check($session->text() === "Once upon a time$said");
    check($model->restore($session->save())->text() === $session->text());
    check($fork->run(...$few)->text() === $said);
    fails(static fn () => $model->restore('nonsense'), 'invalid_argument');
    feature('sessions');
    $held = $model->session()->append('Once upon a time')->constrain(guided_regex: '(yes|no)', never_to_disk: true);
    check(in_array($held->run(...$few)->text(), ['yes', 'no'], true));
    check(in_array($held->fork()->run(...$few)->text(), ['yes', 'no'], true));
    fails(static fn () => $held->save(), 'invalid_argument');
    fails(static fn () => $held->constrain(colour: 'red'), 'invalid_argument');
    feature('constraints');
}

function others(Model $model): void
{
    check(str_contains($model->detokenize($model->tokenize('Once upon a time')), 'upon a time'));
    feature('tokenize');
    $plan = Model::plan('tale', context: 512);
    check($plan['fits'] && $plan['total'] > $plan['weights']);
    feature('plan');
    fails(static fn () => Model::load('nowhere.gguf'), 'not_found');
    fails(static fn () => Model::load('tale', memory: '1k'), 'out_of_memory');
    fails(static fn () => $model->chat('a', tempreature: 1)->text(), 'invalid_argument');
    $other = Model::load('tale');
    check($other->info()['name'] === 'tale');
    $other->close();
    fails(static fn () => $other->tokenize('a'), 'closed');
    feature('errors');
}

/** Images in messages, and audio files as text. */
function senses(): void
{
    $model = Model::load(getenv('STRATA_SEEING_MODEL'), projector: getenv('STRATA_EYES'));
    $answer = $model->request('/v1/chat/completions', json_decode(getenv('STRATA_QUESTION'), true))->next();
    check($answer['choices'][0]['logprobs'] === json_decode(getenv('STRATA_SEEN'), true));
    feature('images');
    check(in_array('transcriptions', Model::features(), true));
    $model = Model::load(getenv('STRATA_HEARING_MODEL'));
    $heard = json_decode(getenv('STRATA_HEARD'), true);
    $told = $model->transcribe(getenv('STRATA_SOUND'), response_format: 'verbose_json');
    check($told['text'] !== '' && array_intersect_key($told, $heard) == $heard);
    fails(static fn () => $model->transcribe('/nowhere.wav'), 'not_found');
    fails(static fn () => $model->chat('a')->text(), 'unsupported');
    feature('speech');
}

function resident(): int
{
    return (int) explode(' ', (string) file_get_contents('/proc/self/statm'))[1] * 4;
}

/** PHP has one thread: 64 streams at once, read in any order, canceled and freed in any order. */
function stress(): void
{
    $seconds = (float) (getenv('STRATA_STRESS_SECONDS') ?: 3);
    $model = Model::load('tale', context: 64, requests: 16);
    [$start, $early, $ended, $canceled, $streams] = [microtime(true), 0, 0, 0, []];
    while (microtime(true) < $start + $seconds) {
        if ($early === 0 && microtime(true) > $start + $seconds / 3) {
            $early = resident();
        }
        while (count($streams) < 64) {
            $body = ['prompt' => 'Once upon a time ' . random_int(0, 50), 'max_tokens' => random_int(1, 24), 'stream' => true];
            $streams[] = $model->request('/v1/completions', $body);
        }
        $key = array_rand($streams);
        try {
            $document = $streams[$key]->next(random_int(0, 3), $pending);
            if ($document === null && !$pending) {
                $ended++;
                unset($streams[$key]);
            }
        } catch (Canceled) {
            $canceled++;
            unset($streams[$key]);
        }
        if (random_int(0, 15) === 0 && $streams !== []) {
            $streams[array_rand($streams)]->cancel();
        }
        if (random_int(0, 63) === 0 && $streams !== []) {
            unset($streams[array_rand($streams)]);
        }
    }
    $late = resident();
    check($ended > 0 && $canceled > 0, "$ended ended, $canceled canceled");
    check($late < $early + ($seconds < 10 ? 65_536 : 24_576), "$early kB, then $late kB");
    fwrite(STDERR, "$ended ended, $canceled canceled; $early kB, then $late kB\n");
    feature('stress');
}

$model = Model::load('tale');
greedy($model);
cancel($model);
schema($model);
tools($model);
embeddings($model);
adapters();
sessions($model);
others($model);
senses();
stress();
