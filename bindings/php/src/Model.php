<?php

declare(strict_types=1);

namespace Strata;

use FFI;
use FFI\CData;

/** A model in memory. */
final class Model
{
    private function __construct(private ?CData $handle)
    {
        if ($handle === null) {
            throw Library::error();
        }
    }

    /**
     * Opens a model: a GGUF file, a Hugging Face folder, a name in the store, or "tale", which is built in. Options are named:
     * memory: '6G', threads, context, requests, batch, kv, stream, quantize, adapters, draft_model, max_draft, drafts, projector, device,
     * gpu_layers, device_lost, cache, sessions, image_urls, peers.
     */
    public static function load(string $model, mixed ...$options): self
    {
        return new self(Library::get()->strata_open($model, self::options($options)));
    }

    /** @return array<string, mixed> what a model would take in bytes, without loading it */
    public static function plan(string $model, mixed ...$options): array
    {
        $plan = Library::take(Library::get()->strata_plan($model, self::options($options)));
        return json_decode($plan, true, 512, JSON_THROW_ON_ERROR);
    }

    /** @return list<string> what the library can do, by name */
    public static function features(): array
    {
        return explode(' ', Library::get()->strata_features());
    }

    private static function options(array $options): string
    {
        return Library::json($options === [] ? new \stdClass() : $options);
    }

    private function handle(): CData
    {
        return $this->handle ?? throw new Error('the model was closed', 'closed');
    }

    /** Asks what `strata serve` is asked at a path: the documents that it would send. */
    public function request(string $path, ?array $body = null): Stream
    {
        $text = $body === null ? null : Library::json($body);
        return new Stream(Library::get()->strata_request($this->handle(), $path, $text));
    }

    /**
     * Asks for the next message of a conversation. All other fields are those of /v1/chat/completions, by their names.
     *
     * @param string|list<array<string, mixed>> $messages
     * @param list<Tool|array<string, mixed>> $tools
     * @param class-string|array<string, mixed>|null $schema
     * @param array<int, float>|null $adapters numbers with strengths
     */
    public function chat(
        string|array $messages,
        array $tools = [],
        string|array|null $schema = null,
        ?array $adapters = null,
        mixed ...$fields,
    ): Answer {
        $messages = is_string($messages) ? [['role' => 'user', 'content' => $messages]] : $messages;
        $body = ['messages' => $messages] + self::common($adapters, $fields);
        $functions = [];
        foreach ($tools as $tool) {
            $body['tools'][] = $tool instanceof Tool ? $tool->document() : $tool;
            if ($tool instanceof Tool) {
                $functions[$tool->name] = $tool;
            }
        }
        if ($schema !== null) {
            $form = ['name' => 'answer', 'schema' => Schema::of($schema), 'strict' => true];
            $body['response_format'] = ['type' => 'json_schema', 'json_schema' => $form];
        }
        $start = fn (): Stream => $functions === []
            ? $this->request('/v1/chat/completions', $body)
            : new Stream(Library::get()->strata_chat_tools($this->handle(), Library::json($body)));
        return new Answer($start, $functions, $schema);
    }

    /** Continues a text as it is. */
    public function complete(string $prompt, ?array $adapters = null, mixed ...$fields): Answer
    {
        $body = ['prompt' => $prompt] + self::common($adapters, $fields);
        return new Answer(fn (): Stream => $this->request('/v1/completions', $body));
    }

    /**
     * Vectors of length 1.
     *
     * @return list<list<float>>
     */
    public function embed(string ...$texts): array
    {
        $body = ['input' => array_values($texts), 'encoding_format' => 'base64'];
        $data = $this->request('/v1/embeddings', $body)->next()['data'];
        $row = static fn (array $one): array => array_values(unpack('g*', base64_decode($one['embedding'])));
        return array_map($row, $data);
    }

    /**
     * What is said in an audio file, with a model for speech. All other fields are those of /v1/audio/transcriptions.
     *
     * @return array<string, mixed>
     */
    public function transcribe(string $file, mixed ...$fields): array
    {
        return $this->request('/v1/audio/transcriptions', ['file' => $file] + $fields)->next();
    }

    /** @return list<int> the tokens of a text */
    public function tokenize(string $text): array
    {
        $ffi = Library::get();
        $count = $ffi->new('size_t[1]');
        $tokens = $ffi->strata_tokenize($this->handle(), $text, strlen($text), $count);
        if ($tokens === null) {
            throw Library::error();
        }
        $all = [];
        for ($i = 0; $i < $count[0]; $i++) {
            $all[] = $tokens[$i];
        }
        $ffi->strata_tokens_free($tokens, $count[0]);
        return $all;
    }

    /** @param list<int> $tokens */
    public function detokenize(array $tokens): string
    {
        $ffi = Library::get();
        $given = $ffi->new('uint32_t[' . max(1, count($tokens)) . ']');
        foreach (array_values($tokens) as $i => $token) {
            $given[$i] = $token;
        }
        return Library::take($ffi->strata_detokenize($this->handle(), $given, count($tokens)));
    }

    /** @return array<string, mixed> what is known of the model */
    public function info(): array
    {
        $info = Library::take(Library::get()->strata_model_info($this->handle()));
        return json_decode($info, true, 512, JSON_THROW_ON_ERROR);
    }

    /** @param array<int, float> $scales the strength of adapters for requests that name none */
    public function setAdapters(array $scales): void
    {
        if (Library::get()->strata_adapters_set($this->handle(), Library::json(self::loras($scales))) !== 0) {
            throw Library::error();
        }
    }

    /** An empty session. */
    public function session(): Session
    {
        return new Session(Library::get()->strata_session_new($this->handle()));
    }

    /** A session that was saved, perhaps by another process. */
    public function restore(string $saved): Session
    {
        $ffi = Library::get();
        $bytes = $ffi->new('uint8_t[' . max(1, strlen($saved)) . ']');
        FFI::memcpy($bytes, $saved, strlen($saved));
        return new Session($ffi->strata_session_restore($this->handle(), $bytes, strlen($saved)));
    }

    /** Lets go of the model. It leaves memory when its last stream and session are gone too. */
    public function close(): void
    {
        Library::get()->strata_model_free($this->handle);
        $this->handle = null;
    }

    public function __destruct()
    {
        $this->close();
    }

    /** @return array<string, mixed> */
    public static function common(?array $adapters, array $fields): array
    {
        $body = $fields + ['stream' => true];
        return $adapters === null ? $body : $body + ['lora' => self::loras($adapters)];
    }

    private static function loras(array $scales): array
    {
        $one = static fn (int $id, float $scale): array => ['id' => $id, 'scale' => $scale];
        return array_map($one, array_keys($scales), array_values($scales));
    }
}
