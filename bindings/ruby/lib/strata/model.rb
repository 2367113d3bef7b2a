# frozen_string_literal: true

module Strata
  # Opens a model: a GGUF file, a Hugging Face folder, a name in the store, or "tale", which is built in.
  def self.load(model, **options)
    Model.new(Library.pointer(:strata_open, model.to_s, JSON.generate(options)))
  end

  # What a model would take in bytes, without loading it.
  def self.plan(model, **options)
    JSON.parse(Library.text(:strata_plan, model.to_s, JSON.generate(options)))
  end

  # What the library can do, by name.
  def self.features
    Library.call(:strata_features).to_s.split
  end

  # The JSON schema of an object: Strata.schema(animal: { enum: %w[fox owl] }, age: { type: 'integer' })
  def self.schema(properties)
    { type: 'object', properties: properties, required: properties.keys, additionalProperties: false }
  end

  # A model in memory. Any number of threads may ask it at once.
  class Model
    def initialize(handle)
      @handle = handle
      ObjectSpace.define_finalizer(self, self.class.free(handle.to_i))
    end

    def self.free(address)
      proc { Library.call(:strata_model_free, Fiddle::Pointer.new(address)) }
    end

    # Asks what `strata serve` is asked at a path: the documents that it would send.
    def request(path, body = nil)
      Stream.new(Library.pointer(:strata_request, handle, path, body && JSON.generate(body)))
    end

    # Asks for the next message of a conversation. `schema` is a JSON schema; `as` is a class with keywords to make of the
    # answer. All other fields are those of /v1/chat/completions.
    def chat(messages, tools: [], schema: nil, as: nil, adapters: nil, **fields)
      messages = [{ role: 'user', content: messages }] if messages.is_a?(String)
      body = common(adapters, fields).merge(messages: messages)
      functions = tools.grep(Tool).to_h { |tool| [tool.name, tool] }
      body[:tools] = tools.map { |tool| tool.is_a?(Tool) ? tool.document : tool } unless tools.empty?
      if schema
        form = { name: 'answer', schema: schema, strict: true }
        body[:response_format] = { type: 'json_schema', json_schema: form }
      end
      return Answer.new({}, as || schema) { request('/v1/chat/completions', body) } if functions.empty?

      Answer.new(functions, as || schema) do
        Stream.new(Library.pointer(:strata_chat_tools, handle, JSON.generate(body)))
      end
    end

    # Continues a text as it is.
    def complete(prompt, adapters: nil, **fields)
      body = common(adapters, fields).merge(prompt: prompt)
      Answer.new { request('/v1/completions', body) }
    end

    # A vector of length 1 for each text.
    def embed(*texts)
      body = { input: texts, encoding_format: 'base64' }
      request('/v1/embeddings', body).next['data'].map { |one| one['embedding'].unpack1('m').unpack('e*') }
    end

    # What is said in an audio file, with a model for speech. The fields are those of /v1/audio/transcriptions.
    def transcribe(file, **fields)
      request('/v1/audio/transcriptions', { file: file.to_s }.merge(fields)).next
    end

    # The tokens of a text.
    def tokenize(text)
      count = Fiddle::Pointer.malloc(Fiddle::SIZEOF_SIZE_T, Fiddle::RUBY_FREE)
      given = Library.pointer(:strata_tokenize, handle, text, text.bytesize, count)
      length = count[0, Fiddle::SIZEOF_SIZE_T].unpack1('J')
      tokens = given[0, 4 * length].unpack('L*')
      Library.call(:strata_tokens_free, given, length)
      tokens
    end

    # The text of tokens.
    def detokenize(tokens)
      Library.text(:strata_detokenize, handle, tokens.pack('L*'), tokens.size)
    end

    # What is known of the model.
    def info
      JSON.parse(Library.text(:strata_model_info, handle))
    end

    # Sets the strength of adapters for requests that name none.
    def set_adapters(scales)
      Library.check(:strata_adapters_set, handle, JSON.generate(loras(scales)))
    end

    # An empty session.
    def session
      Session.new(Library.pointer(:strata_session_new, handle))
    end

    # A session that was saved, perhaps by another process.
    def restore(saved)
      Session.new(Library.pointer(:strata_session_restore, handle, saved, saved.bytesize))
    end

    # Lets go of the model. It leaves memory when its last stream and session are gone too.
    def close
      return unless @handle

      ObjectSpace.undefine_finalizer(self)
      Library.call(:strata_model_free, @handle)
      @handle = nil
    end

    private

    def handle
      @handle || raise(Error.new('the model was closed', 'closed'))
    end

    def common(adapters, fields)
      body = { stream: true }.merge(fields)
      adapters ? body.merge(lora: loras(adapters)) : body
    end

    def loras(scales)
      scales.map { |id, scale| { id: id, scale: scale } }
    end
  end
end
