<?php

declare(strict_types=1);

namespace Strata;

/**
 * An answer that comes while you read it: `foreach ($answer as $event) echo $event->text;`. Leaving the loop and letting go of
 * it cancels the request.
 *
 * @implements \IteratorAggregate<int, Event>
 */
final class Answer implements \IteratorAggregate
{
    private ?Stream $stream = null;
    private string $said = '';
    private string $thought = '';
    private ?string $finish = null;
    private bool $over = false;
    /** @var list<array{id: string, name: string, arguments: string}> */
    private array $calls = [];

    /**
     * @param \Closure(): Stream $start
     * @param array<string, Tool> $functions
     */
    public function __construct(
        private readonly \Closure $start,
        private readonly array $functions = [],
        private readonly string|array|null $schema = null,
    ) {
    }

    public function getIterator(): \Generator
    {
        $this->stream ??= ($this->start)();
        while (!$this->over && ($document = $this->stream->next()) !== null) {
            if (($document['object'] ?? null) === 'tool.calls') {
                yield new Event(calls: $document['calls'], raw: $document);
                $this->answerCalls($document['calls']);
                continue;
            }
            $event = $this->hear($document);
            if ($event->text !== '' || $event->thinking !== '') {
                yield $event;
            }
        }
        $this->over = true;
    }

    private function answerCalls(array $calls): void
    {
        foreach ($calls as $call) {
            if (!isset($this->functions[$call['name']])) {
                $this->over = true;
                return;
            }
        }
        // What was said before its calls is no part of the answer.
        [$this->calls, $this->said] = [[], ''];
        foreach ($calls as $call) {
            $this->stream->toolResult($call['id'], $this->functions[$call['name']]->call($call['arguments']));
        }
    }

    private function hear(array $document): Event
    {
        [$text, $thinking] = ['', ''];
        foreach ($document['choices'] ?? [] as $choice) {
            if ($choice['index'] !== 0) {
                continue;
            }
            $text .= $choice['delta']['content'] ?? $choice['text'] ?? '';
            $thinking .= $choice['delta']['reasoning_content'] ?? '';
            foreach ($choice['delta']['tool_calls'] ?? [] as $part) {
                if (isset($part['id'])) {
                    $this->calls[] = ['id' => $part['id'], 'name' => $part['function']['name'], 'arguments' => ''];
                }
                $this->calls[array_key_last($this->calls)]['arguments'] .= $part['function']['arguments'] ?? '';
            }
            $this->finish = $choice['finish_reason'] ?? $this->finish;
        }
        $this->said .= $text;
        $this->thought .= $thinking;
        return new Event($text, $thinking, raw: $document);
    }

    private function wait(): void
    {
        foreach ($this as $ignored) {
        }
    }

    /** The whole text. */
    public function text(): string
    {
        $this->wait();
        return $this->said;
    }

    /** What the model thought. */
    public function thinking(): string
    {
        $this->wait();
        return $this->thought;
    }

    /** The answer as an object of its schema's class, or as an array. */
    public function parsed(): mixed
    {
        return Schema::parse($this->schema, $this->text());
    }

    /** The tool calls that no function has answered. */
    public function calls(): array
    {
        $this->wait();
        return array_map(
            static fn (array $call): array => ['arguments' => json_decode($call['arguments'], true)] + $call,
            $this->calls,
        );
    }

    /** Why it ended. */
    public function finishReason(): ?string
    {
        $this->wait();
        return $this->finish;
    }

    /** Cancels the request. */
    public function cancel(): void
    {
        $this->stream ??= ($this->start)();
        $this->stream->cancel();
    }
}
