<?php

declare(strict_types=1);

namespace Strata;

use FFI;
use FFI\CData;

/**
 * The C library. It is found as STRATA_LIBRARY says, beside this package in lib/, or by the system's linker. Under FPM it comes
 * from preloading: see preload.php.
 */
final class Library
{
    private const ABI = 1;
    private const NEEDED = 'chat completions constraints embeddings plan sessions tokenize tools';
    private static ?FFI $ffi = null;

    public static function get(): FFI
    {
        return self::$ffi ??= self::open();
    }

    private static function open(): FFI
    {
        try {
            $ffi = FFI::scope('STRATA');
        } catch (FFI\Exception) {
            $ffi = FFI::cdef(self::declarations(), self::path());
        }
        if ($ffi->strata_abi_version() !== self::ABI) {
            throw new Error('the library is of another version than this package', 'unsupported');
        }
        if ($ffi->strata_require(self::NEEDED) !== 0) {
            throw self::failure($ffi);
        }
        return $ffi;
    }

    public static function path(): string
    {
        $given = getenv('STRATA_LIBRARY');
        if ($given !== false && $given !== '') {
            return $given;
        }
        $beside = dirname(__DIR__) . '/lib/libstrata_c.so';
        return is_file($beside) ? $beside : 'libstrata_c.so';
    }

    /** The declarations of strata.h, without what only a C compiler reads. */
    public static function declarations(): string
    {
        $header = (string) file_get_contents(dirname(__DIR__) . '/include/strata.h');
        $plain = preg_replace(['~/\*.*?\*/~s', '~^#ifdef __cplusplus\n.*?^#endif~ms', '~^#.*$~m'], '', $header);
        return (string) $plain;
    }

    /** A text of the library's, copied and freed. */
    public static function take(?CData $text): string
    {
        if ($text === null) {
            throw self::error();
        }
        try {
            return FFI::string($text);
        } finally {
            self::get()->strata_string_free($text);
        }
    }

    /** What the thread's latest call failed with. */
    public static function error(): Error
    {
        return self::failure(self::get());
    }

    private static function failure(FFI $ffi): Error
    {
        $text = static fn (CData|string|null $given): string => $given instanceof CData ? FFI::string($given) : (string) $given;
        $code = $text($ffi->strata_error_code());
        $hint = $text($ffi->strata_error_hint());
        $message = $text($ffi->strata_error_message());
        $kind = $code === 'canceled' ? Canceled::class : Error::class;
        return new $kind($message, $code, $hint === '' ? null : $hint);
    }

    /** @param mixed $value */
    public static function json($value): string
    {
        return json_encode($value, JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES);
    }
}
