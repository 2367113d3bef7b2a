# frozen_string_literal: true

module Strata
  # A text that grows over many requests.
  class Session
    def initialize(handle)
      @handle = handle
      ObjectSpace.define_finalizer(self, self.class.free(handle.to_i))
    end

    def self.free(address)
      proc { Library.call(:strata_session_free, Fiddle::Pointer.new(address)) }
    end

    # Appends to the text. Control tokens in it are read as such.
    def append(text)
      Library.check(:strata_session_append, @handle, text)
      self
    end

    # Holds all later runs, and those of forks, to constraints: deadline_ms, first_token_ms, token_ms, memory in bytes, a format
    # (response_format, guided_regex, guided_choice, grammar), never_to_disk, never_off_machine.
    def constrain(**constraints)
      Library.check(:strata_session_constrain, @handle, JSON.generate(constraints))
      self
    end

    # Continues the text; the fields are those of /v1/completions.
    def run(**fields)
      body = JSON.generate({ stream: true }.merge(fields))
      Answer.new { Stream.new(Library.pointer(:strata_session_run, @handle, body)) }
    end

    # The text so far.
    def text
      Library.text(:strata_session_text, @handle)
    end

    # Another session with the same text.
    def fork
      Session.new(Library.pointer(:strata_session_fork, @handle))
    end

    # The session as bytes.
    def save
      count = Fiddle::Pointer.malloc(Fiddle::SIZEOF_SIZE_T, Fiddle::RUBY_FREE)
      given = Library.pointer(:strata_session_save, @handle, count)
      length = count[0, Fiddle::SIZEOF_SIZE_T].unpack1('J')
      saved = given[0, length]
      Library.call(:strata_bytes_free, given, length)
      saved
    end
  end
end
