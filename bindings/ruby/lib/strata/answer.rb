# frozen_string_literal: true

module Strata
  # A piece of an answer.
  Event = Struct.new(:text, :thinking, :calls, :raw)

  # An answer that comes while you read it.
  class Answer
    include Enumerable

    def initialize(functions = {}, schema = nil, &start)
      @start = start
      @functions = functions
      @schema = schema
      @said = +''
      @thought = +''
      @calls = []
      @over = false
    end

    # The pieces as they come. Leaving the loop cancels the request.
    def each(&block)
      return enum_for(:each) unless block

      stream.each do |document|
        if document['object'] == 'tool.calls'
          block.call(Event.new('', '', document['calls'], document))
          break unless answered(document['calls'])
        else
          event = hear(document)
          block.call(event) unless event.text.empty? && event.thinking.empty?
        end
      end
      @over = true
      self
    end

    # The whole text.
    def text
      wait
      @said
    end

    # What the model thought.
    def thinking
      wait
      @thought
    end

    # The answer as its schema says: a Struct's value, or what JSON gives.
    def parsed
      value = JSON.parse(text)
      @schema.is_a?(Class) ? @schema.new(**value.transform_keys(&:to_sym)) : value
    end

    # The tool calls that no block has answered.
    def calls
      wait
      @calls.map { |call| call.merge('arguments' => JSON.parse(call['arguments'])) }
    end

    # Why it ended.
    def finish_reason
      wait
      @finish
    end

    # Cancels the request, from any thread, at any time.
    def cancel
      stream.cancel
    end

    private

    def stream
      @stream ||= @start.call
    end

    def wait
      each { |_event| nil } unless @over
    end

    # Answers calls, if there are blocks for all of them.
    def answered(calls)
      return false unless calls.all? { |call| @functions.key?(call['name']) }

      # What was said before its calls is no part of the answer.
      @calls.clear
      @said.clear
      calls.each { |call| stream.tool_result(call['id'], @functions[call['name']].call(call['arguments'])) }
      true
    end

    def hear(document)
      event = Event.new(+'', +'', [], document)
      (document['choices'] || []).each do |choice|
        next unless choice['index'].zero?

        delta = choice['delta'] || {}
        event.text << (delta['content'] || choice['text'] || '')
        event.thinking << (delta['reasoning_content'] || '')
        (delta['tool_calls'] || []).each { |part| add_call(part) }
        @finish = choice['finish_reason'] || @finish
      end
      @said << event.text
      @thought << event.thinking
      event
    end

    def add_call(part)
      function = part['function']
      @calls << { 'id' => part['id'], 'name' => function['name'], 'arguments' => +'' } if part['id']
      @calls.last['arguments'] << (function['arguments'] || '')
    end
  end
end
