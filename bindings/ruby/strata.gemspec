# frozen_string_literal: true

Gem::Specification.new do |gem|
  gem.name = 'strata-llm'
  gem.version = '0.1.0'
  gem.summary = 'Run language models in your own process: no daemon, the same bytes everywhere.'
  gem.authors = ['The Strata authors']
  gem.licenses = ['MIT', 'Apache-2.0']
  gem.required_ruby_version = '>= 3.0'
  gem.files = Dir['lib/**/*', 'README.md']
end
