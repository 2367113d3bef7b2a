<?php

declare(strict_types=1);

namespace Strata;

/** What went wrong: a sentence, a code that stays the same from version to version, perhaps a hint. */
class Error extends \RuntimeException
{
    public function __construct(string $message, public readonly string $kind, public readonly ?string $hint = null)
    {
        parent::__construct($message);
    }
}
