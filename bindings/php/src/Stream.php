<?php

declare(strict_types=1);

namespace Strata;

use FFI\CData;

/**
 * The documents of a request, as arrays. Leaving the loop and letting go of it cancels the request.
 *
 * @implements \IteratorAggregate<int, array<string, mixed>>
 */
final class Stream implements \IteratorAggregate
{
    public function __construct(private ?CData $handle)
    {
        if ($handle === null) {
            throw Library::error();
        }
    }

    /** Waits for the next document, so many milliseconds at most if a number is given; null after the last. */
    public function next(int $milliseconds = -1, ?bool &$pending = null): ?array
    {
        $ffi = Library::get();
        $document = $ffi->new('char *[1]');
        $status = $ffi->strata_next($this->handle, $milliseconds, $document);
        $pending = $status === 2;
        return match ($status) {
            1 => json_decode(Library::take($document[0]), true, 512, JSON_THROW_ON_ERROR),
            -1 => throw Library::error(),
            default => null,
        };
    }

    public function getIterator(): \Generator
    {
        while (($document = $this->next()) !== null) {
            yield $document;
        }
    }

    /** Cancels the request. */
    public function cancel(): void
    {
        Library::get()->strata_cancel($this->handle);
    }

    /** Gives the result of a tool call. */
    public function toolResult(string $id, string $result): void
    {
        if (Library::get()->strata_tool_result($this->handle, $id, $result) !== 0) {
            throw Library::error();
        }
    }

    /** A descriptor that can be read while there is something to take, for event loops. */
    public function descriptor(): int
    {
        return Library::get()->strata_stream_fd($this->handle);
    }

    public function __destruct()
    {
        Library::get()->strata_stream_free($this->handle);
        $this->handle = null;
    }
}
