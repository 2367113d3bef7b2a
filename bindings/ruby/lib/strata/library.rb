# frozen_string_literal: true

require 'fiddle'
require 'json'

module Strata
  # What went wrong: a sentence, a code that stays the same from version to version, perhaps a hint.
  class Error < StandardError
    attr_reader :code, :hint

    def initialize(message, code, hint = nil)
      super(message)
      @code = code
      @hint = hint
    end
  end

  # The request was canceled.
  class Canceled < Error; end

  # The C library, as STRATA_LIBRARY says, in lib/ of this package, or where the system finds it. Other threads of Ruby run
  # while a call waits.
  module Library
    ABI = 1
    NEEDED = 'chat completions constraints embeddings plan sessions tokenize tools'
    P = Fiddle::TYPE_VOIDP
    I = Fiddle::TYPE_INT
    L = Fiddle::TYPE_LONG_LONG
    S = Fiddle::TYPE_SIZE_T
    V = Fiddle::TYPE_VOID

    FUNCTIONS = {
      strata_abi_version: [[], I], strata_features: [[], P], strata_require: [[P], I],
      strata_error_code: [[], P], strata_error_message: [[], P], strata_error_hint: [[], P],
      strata_open: [[P, P], P], strata_plan: [[P, P], P], strata_model_free: [[P], V], strata_model_info: [[P], P],
      strata_adapters: [[P], P], strata_adapters_set: [[P, P], I], strata_tokenize: [[P, P, S, P], P],
      strata_detokenize: [[P, P, S], P], strata_request: [[P, P, P], P], strata_chat_tools: [[P, P], P],
      strata_tool_result: [[P, P, P], I], strata_next: [[P, L, P], I], strata_stream_fd: [[P], I],
      strata_cancel: [[P], V], strata_stream_free: [[P], V], strata_session_new: [[P], P],
      strata_session_constrain: [[P, P], I], strata_session_append: [[P, P], I], strata_session_run: [[P, P], P], strata_session_text: [[P], P],
      strata_session_fork: [[P], P], strata_session_save: [[P, P], P], strata_session_restore: [[P, P, S], P],
      strata_session_free: [[P], V], strata_string_free: [[P], V], strata_tokens_free: [[P, S], V],
      strata_bytes_free: [[P, S], V]
    }.freeze

    class << self
      # Calls a function of strata.h.
      def call(name, *arguments)
        (@functions || start)[name].call(*arguments)
      end

      # Calls one that gives a handle or memory, and raises its error where it gives none. An error belongs to the thread
      # of the system that made the call, which Ruby does not change between two calls.
      def pointer(name, *arguments)
        given = call(name, *arguments)
        raise error if given.null?

        given
      end

      # Calls one that gives 0.
      def check(name, *arguments)
        raise error unless call(name, *arguments).zero?
      end

      # Calls one that gives a text.
      def text(name, *arguments)
        given = pointer(name, *arguments)
        copy = given.to_s.force_encoding(Encoding::UTF_8)
        call(:strata_string_free, given)
        copy
      end

      # What the latest call failed with.
      def error
        code, message, hint = %i[code message hint].map do |part|
          given = call(:"strata_error_#{part}")
          given.null? ? nil : given.to_s.force_encoding(Encoding::UTF_8)
        end
        (code == 'canceled' ? Canceled : Error).new(message, code, hint)
      end

      private

      def start
        @functions = open
        check(:strata_require, NEEDED)
        @functions
      end

      def open
        library = Fiddle.dlopen(path)
        functions = FUNCTIONS.to_h do |name, (takes, gives)|
          [name, Fiddle::Function.new(library[name.to_s], takes, gives, name: name.to_s)]
        end
        unless functions[:strata_abi_version].call == ABI
          raise Error.new('the library is of another version than this package', 'unsupported')
        end

        functions
      end

      def path
        beside = File.expand_path('libstrata_c.so', __dir__)
        ENV['STRATA_LIBRARY'] || (File.exist?(beside) ? beside : 'libstrata_c.so')
      end
    end
  end
end
