<?php

declare(strict_types=1);

namespace Strata;

use FFI;
use FFI\CData;

/** A text that grows over many requests. */
final class Session
{
    public function __construct(private ?CData $handle)
    {
        if ($handle === null) {
            throw Library::error();
        }
    }

    /** Appends to the text. Control tokens in it are read as such. */
    public function append(string $text): self
    {
        if (Library::get()->strata_session_append($this->handle, $text) !== 0) {
            throw Library::error();
        }
        return $this;
    }

    /**
     * Holds all later runs, and those of forks, to constraints: deadline_ms, first_token_ms, token_ms, memory in bytes, a format
     * (response_format, guided_regex, guided_choice, grammar), never_to_disk, never_off_machine.
     */
    public function constrain(mixed ...$constraints): self
    {
        $json = Library::json($constraints === [] ? new \stdClass() : $constraints);
        if (Library::get()->strata_session_constrain($this->handle, $json) !== 0) {
            throw Library::error();
        }
        return $this;
    }

    /** Continues the text; the fields are those of /v1/completions. */
    public function run(mixed ...$fields): Answer
    {
        $body = Library::json(Model::common(null, $fields));
        return new Answer(fn (): Stream => new Stream(Library::get()->strata_session_run($this->handle, $body)));
    }

    /** The text so far. */
    public function text(): string
    {
        return Library::take(Library::get()->strata_session_text($this->handle));
    }

    /** Another session with the same text. */
    public function fork(): self
    {
        return new self(Library::get()->strata_session_fork($this->handle));
    }

    /** The session as bytes. */
    public function save(): string
    {
        $ffi = Library::get();
        $count = $ffi->new('size_t[1]');
        $bytes = $ffi->strata_session_save($this->handle, $count);
        if ($bytes === null) {
            throw Library::error();
        }
        $saved = FFI::string($bytes, $count[0]);
        $ffi->strata_bytes_free($bytes, $count[0]);
        return $saved;
    }

    public function __destruct()
    {
        Library::get()->strata_session_free($this->handle);
        $this->handle = null;
    }
}
