<?php

declare(strict_types=1);

namespace Strata;

/** A tool that a function answers. Its schema comes from the function's parameters, or is given. */
final class Tool
{
    /** @param array<string, mixed>|null $parameters a JSON schema */
    public function __construct(
        public readonly string $name,
        public readonly \Closure $function,
        public readonly string $description = '',
        public readonly ?array $parameters = null,
    ) {
    }

    /** @return array<string, mixed> the tool as requests list it */
    public function document(): array
    {
        return ['type' => 'function', 'function' => [
            'name' => $this->name,
            'description' => $this->description,
            'strict' => true,
            'parameters' => $this->parameters ?? Schema::ofFunction($this->function),
        ]];
    }

    /** Calls the function. The model is told of errors. */
    public function call(array $arguments): string
    {
        try {
            $result = ($this->function)(...Schema::arguments($this->function, $arguments));
        } catch (\Throwable $error) {
            return "error: {$error->getMessage()}";
        }
        return is_string($result) ? $result : Library::json($result);
    }
}
