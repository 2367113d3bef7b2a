# frozen_string_literal: true

# Run language models in your own process: no daemon, the same bytes everywhere.
#
#   model = Strata.load('tale')
#   model.chat('Tell me a story about a fox.').each { |event| print event.text }
module Strata
end

require_relative 'strata/library'
require_relative 'strata/stream'
require_relative 'strata/tool'
require_relative 'strata/answer'
require_relative 'strata/session'
require_relative 'strata/model'
