# frozen_string_literal: true

module Strata
  # A tool that a block answers: Strata::Tool.new('weather', 'Tells the weather.', parameters: {…}) { |city:| … }
  class Tool
    attr_reader :name

    def initialize(name, description = '', parameters:, &block)
      @name = name
      @description = description
      @parameters = parameters
      @block = block
    end

    # The tool as requests list it.
    def document
      function = { name: @name, description: @description, parameters: @parameters, strict: true }
      { type: 'function', function: function }
    end

    # Calls the block. The model is told of errors.
    def call(arguments)
      result = @block.call(**arguments.transform_keys(&:to_sym))
      result.is_a?(String) ? result : JSON.generate(result)
    rescue StandardError => e
      "error: #{e.message}"
    end
  end
end
