<?php

declare(strict_types=1);

namespace Strata;

/** PHP's types as JSON schemas, and JSON as objects: classes with promoted parameters, enums, and what is built in. */
final class Schema
{
    /** @return array<string, mixed> the schema of a class, or of what is given as one already */
    public static function of(string|array $schema): array
    {
        return is_array($schema) ? $schema : self::ofClass($schema);
    }

    /** An answer as an object of a class, or as an array. */
    public static function parse(string|array|null $schema, string $text): mixed
    {
        $value = json_decode($text, true, 512, JSON_THROW_ON_ERROR);
        return is_string($schema) && is_array($value) ? self::object($schema, $value) : $value;
    }

    /** @return array<string, mixed> */
    public static function ofFunction(\Closure $function): array
    {
        return self::ofParameters(new \ReflectionFunction($function));
    }

    /** Arguments in the types that a function wants. */
    public static function arguments(\Closure $function, array $given): array
    {
        return self::values(new \ReflectionFunction($function), $given);
    }

    private static function ofClass(string $class): array
    {
        $constructor = (new \ReflectionClass($class))->getConstructor();
        if ($constructor === null) {
            throw new \InvalidArgumentException("$class has no constructor to tell its schema by");
        }
        return self::ofParameters($constructor);
    }

    private static function object(string $class, array $given): object
    {
        $constructor = (new \ReflectionClass($class))->getConstructor();
        return new $class(...self::values($constructor, $given));
    }

    private static function values(\ReflectionFunctionAbstract $function, array $given): array
    {
        $values = [];
        foreach ($function->getParameters() as $parameter) {
            $name = $parameter->getName();
            if (!array_key_exists($name, $given)) {
                continue;
            }
            $type = $parameter->getType();
            $class = $type instanceof \ReflectionNamedType && !$type->isBuiltin() ? $type->getName() : null;
            $values[$name] = match (true) {
                $class !== null && is_subclass_of($class, \BackedEnum::class) => $class::from($given[$name]),
                $class !== null && is_array($given[$name]) => self::object($class, $given[$name]),
                default => $given[$name],
            };
        }
        return $values;
    }

    private static function ofParameters(\ReflectionFunctionAbstract $function): array
    {
        [$properties, $required] = [[], []];
        foreach ($function->getParameters() as $parameter) {
            $properties[$parameter->getName()] = self::ofType($parameter->getType());
            if (!$parameter->isOptional()) {
                $required[] = $parameter->getName();
            }
        }
        return [
            'type' => 'object',
            'properties' => $properties === [] ? new \stdClass() : $properties,
            'required' => $required,
            'additionalProperties' => false,
        ];
    }

    private static function ofType(?\ReflectionType $type): array|\stdClass
    {
        if ($type instanceof \ReflectionUnionType) {
            return ['anyOf' => array_map(self::ofType(...), $type->getTypes())];
        }
        if (!$type instanceof \ReflectionNamedType) {
            return new \stdClass();
        }
        $name = $type->getName();
        $schema = match (true) {
            !$type->isBuiltin() && is_subclass_of($name, \BackedEnum::class) => ['enum' => array_column($name::cases(), 'value')],
            $name === 'string' => ['type' => 'string'],
            $name === 'int' => ['type' => 'integer'],
            $name === 'float' => ['type' => 'number'],
            $name === 'bool' => ['type' => 'boolean'],
            $name === 'array' => ['type' => 'array'],
            $name === 'null' => ['type' => 'null'],
            $name === 'mixed' => new \stdClass(),
            default => self::ofClass($name),
        };
        return $type->allowsNull() && !in_array($name, ['null', 'mixed'], true)
            ? ['anyOf' => [$schema, ['type' => 'null']]]
            : $schema;
    }
}
