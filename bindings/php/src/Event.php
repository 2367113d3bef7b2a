<?php

declare(strict_types=1);

namespace Strata;

/** A piece of an answer. */
final class Event
{
    /**
     * @param list<array{id: string, name: string, arguments: array<string, mixed>}> $calls
     * @param array<string, mixed> $raw the document that it came with, in OpenAI's shape
     */
    public function __construct(
        public readonly string $text = '',
        public readonly string $thinking = '',
        public readonly array $calls = [],
        public readonly array $raw = [],
    ) {
    }
}
