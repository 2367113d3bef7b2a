# frozen_string_literal: true

module Strata
  # The documents of a request, as hashes.
  class Stream
    include Enumerable

    ENDED = 0
    DOCUMENT = 1
    FAILED = -1

    def initialize(handle)
      @handle = handle
      ObjectSpace.define_finalizer(self, self.class.free(handle.to_i))
    end

    def self.free(address)
      proc { Library.call(:strata_stream_free, Fiddle::Pointer.new(address)) }
    end

    # Waits for the next document, so many seconds at most if a number is given: a hash, nil after the last, :pending if none
    # came in time.
    def next(seconds = nil)
      place = Fiddle::Pointer.malloc(Fiddle::SIZEOF_VOIDP, Fiddle::RUBY_FREE)
      status = Library.call(:strata_next, @handle, seconds ? (seconds * 1000).to_i : -1, place)
      case status
      when DOCUMENT then JSON.parse(take(place.ptr))
      when ENDED then nil
      when FAILED then raise Library.error
      else :pending
      end
    end

    # The documents as they come. Leaving the loop cancels the request.
    def each
      return enum_for(:each) unless block_given?

      begin
        while (document = self.next)
          yield document
        end
      ensure
        cancel
      end
    end

    # Cancels the request, from any thread, at any time.
    def cancel
      Library.call(:strata_cancel, @handle)
    end

    # Gives the result of a tool call.
    def tool_result(id, text)
      Library.check(:strata_tool_result, @handle, id, text)
    end

    # A descriptor that can be read while there is something to take.
    def fileno
      Library.call(:strata_stream_fd, @handle)
    end

    private

    def take(given)
      copy = given.to_s.force_encoding(Encoding::UTF_8)
      Library.call(:strata_string_free, given)
      copy
    end
  end
end
