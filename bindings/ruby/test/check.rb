# frozen_string_literal: true

# What every binding must do, in Ruby. Says `feature NAME` for each thing that it has seen work.
# `cargo xtask test-bindings ruby` sets what is expected in the environment.

require 'strata'

STORY = ENV.fetch('STRATA_STORY').dup.force_encoding(Encoding::UTF_8)
ASKED = 'Tell me a story about a fox.'
SETTINGS = { temperature: 0, max_tokens: 32 }.freeze
LONG = { max_tokens: 2000, ignore_eos: true }.freeze

def feature(name)
  puts "feature #{name}"
  $stdout.flush
end

def check(holds, what = 'it does not hold')
  raise what unless holds
end

def fails(code)
  yield
  raise "no error #{code}"
rescue Strata::Error => e
  check(e.code == code, "#{e.code}: #{e.message}")
end

def greedy(model)
  check(model.chat(ASKED, **SETTINGS).text == STORY)
  feature('greedy')
  pieces = model.chat([{ role: 'user', content: ASKED }], **SETTINGS).map(&:text)
  check(pieces.join == STORY && pieces.size > 5)
  feature('stream')
end

def cancel(model)
  model.complete('Once', **LONG).each { |event| break check(!event.text.empty?) }
  answer = model.complete('Once', **LONG)
  thread = Thread.new { sleep(0.05).then { answer.cancel } }
  fails('canceled') { answer.text }
  thread.join
  # In a prompt's computation, too.
  stream = model.request('/v1/completions', { prompt: 'fox owl ' * 900, max_tokens: 1 })
  check(stream.next(0.001) == :pending)
  stream.cancel
  fails('canceled') { stream.next }
  feature('cancel')
end

Hero = Struct.new(:animal, :age, keyword_init: true)

def schema(model)
  schema = Strata.schema(animal: { enum: %w[fox owl] }, age: { type: 'integer', minimum: 1, maximum: 9 })
  hero = model.chat('Who is the hero?', schema: schema, as: Hero, temperature: 0).parsed
  check(hero.is_a?(Hero) && %w[fox owl].include?(hero.animal) && hero.age.between?(1, 9))
  feature('schema')
end

def tools(model)
  asked = []
  parameters = Strata.schema(city: { enum: %w[Bern Oslo] })
  weather = Strata::Tool.new('weather', 'Tells the weather in a city.', parameters: parameters) do |city:|
    asked << city
    { degrees: 18 }
  end
  fields = { tool_choice: 'required', temperature: 0, max_tokens: 60 }
  answer = model.chat('Is it warm in Oslo?', tools: [weather], **fields)
  check(!answer.text.empty? && %w[Bern Oslo].include?(asked.first) && answer.calls.empty?)
  calls = model.chat('Warm?', tools: [weather.document], **fields).calls
  check(%w[Bern Oslo].include?(calls.first['arguments']['city']))
  feature('tools')
end

def embeddings(model)
  expected = JSON.parse(ENV.fetch('STRATA_EMBEDDING')).pack('e*').unpack('e*')
  check(model.embed('a fox and an owl', 'an owl').first == expected)
  feature('embeddings')
end

def adapters
  model = Strata.load('tale', adapters: [ENV.fetch('STRATA_ADAPTER_ONE'), ENV.fetch('STRATA_ADAPTER_TWO')])
  ask = ->(adapters) { model.complete('Once upon a time', adapters: adapters, temperature: 0, max_tokens: 16).text }
  wanted = [nil, { 0 => 1.0 }, { 1 => 1.0 }]
  alone = wanted.map(&ask)
  check(alone.uniq.size == 3)
  check(wanted.map { |one| Thread.new { ask.call(one) } }.map(&:value) == alone)
  model.set_adapters({ 1 => 1.0 })
  check(ask.call(nil) == alone.last)
  model.close
  feature('adapters')
end

def sessions(model)
  few = { max_tokens: 6, temperature: 0 }
  session = model.session.append('Once upon a time')
  fork = session.fork
  said = session.run(**few).text
  check(session.text == "Once upon a time#{said}" && model.restore(session.save).text == session.text)
  check(fork.run(**few).text == said)
  fails('invalid_argument') { model.restore('nonsense') }
  feature('sessions')
  held = model.session.append('Once upon a time').constrain(guided_regex: '(yes|no)', never_to_disk: true)
  check(%w[yes no].include?(held.run(**few).text) && %w[yes no].include?(held.fork.run(**few).text))
  fails('invalid_argument') { held.save }
  fails('invalid_argument') { held.constrain(colour: 'red') }
  feature('constraints')
end

def others(model)
  check(model.detokenize(model.tokenize('Once upon a time')).include?('upon a time'))
  feature('tokenize')
  plan = Strata.plan('tale', context: 512)
  check(plan['fits'] && plan['total'] > plan['weights'])
  feature('plan')
  fails('not_found') { Strata.load('nowhere.gguf') }
  fails('out_of_memory') { Strata.load('tale', memory: '1k') }
  fails('invalid_argument') { model.chat('a', tempreature: 1).text }
  other = Strata.load('tale')
  check(other.info['name'] == 'tale')
  other.close
  fails('closed') { other.tokenize('a') }
  feature('errors')
end

# Images in messages, and audio files as text.
def senses
  model = Strata.load(ENV.fetch('STRATA_SEEING_MODEL'), projector: ENV.fetch('STRATA_EYES'))
  answer = model.request('/v1/chat/completions', JSON.parse(ENV.fetch('STRATA_QUESTION'))).next
  check(answer['choices'][0]['logprobs'] == JSON.parse(ENV.fetch('STRATA_SEEN')))
  feature('images')
  check(Strata.features.include?('transcriptions'))
  model = Strata.load(ENV.fetch('STRATA_HEARING_MODEL'))
  heard = JSON.parse(ENV.fetch('STRATA_HEARD'))
  told = model.transcribe(ENV.fetch('STRATA_SOUND'), response_format: 'verbose_json')
  check(!told['text'].empty? && told.slice(*heard.keys) == heard, told)
  fails('not_found') { model.transcribe('/nowhere.wav') }
  fails('unsupported') { model.chat('a').text }
  feature('speech')
end

def resident
  File.read('/proc/self/statm').split[1].to_i * 4
end

def stress
  seconds = ENV.fetch('STRATA_STRESS_SECONDS', '3').to_f
  model = Strata.load('tale', context: 64, requests: 16)
  finish = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
  ended, canceled = Queue.new, Queue.new
  shared = Array.new(64)
  threads = Array.new(64) do
    Thread.new do
      while Process.clock_gettime(Process::CLOCK_MONOTONIC) < finish
        answer = model.complete("Once upon a time #{rand(50)}", max_tokens: 1 + rand(24))
        shared[rand(64)] = answer
        begin
          answer.each { |_event| shared[rand(64)]&.cancel if rand(16).zero? }
          ended << 1
        rescue Strata::Canceled
          canceled << 1
        end
      end
    end
  end
  sleep(seconds / 3)
  early = resident
  threads.each(&:join)
  GC.start
  late = resident
  check(!ended.empty? && !canceled.empty?, "#{ended.size} ended, #{canceled.size} canceled")
  check(late < early + (seconds < 10 ? 65_536 : 32_768), "#{early} kB, then #{late} kB")
  warn "#{ended.size} ended, #{canceled.size} canceled; #{early} kB, then #{late} kB"
  feature('stress')
end

model = Strata.load('tale')
greedy(model)
cancel(model)
schema(model)
tools(model)
embeddings(model)
adapters
sessions(model)
others(model)
senses
stress
